-- As before, by the newest checkpoint instead of by reading all: the floor never falls, and nearly all of them are newer than
-- the month that is taken away.
create or replace function detach_log_partition(wanted text) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  last bigint;
  its_month date;
  last_position bigint;
begin
  perform pg_advisory_xact_lock(7031013);
  if wanted !~ '^log_entries_\d{4}_\d{2}$'
    or not exists (select from pg_inherits where inhrelid = to_regclass(wanted) and inhparent = 'log_entries'::regclass)
  then return; end if;
  select last_sequence into last from removals where partition_name = wanted;
  if last is null then raise exception 'no removal of % is on record', wanted; end if;
  its_month := to_date(substr(wanted, 13), 'YYYY_MM');
  if exists (select from log_months where month <= its_month and last_sequence > last) then
    raise exception '% has entries that the removal does not cover', wanted;
  end if;
  execute format('select max(position) from %I', wanted) into last_position;
  if last_position > (select floor_position from checkpoints where size >= last order by created_at desc limit 1) then
    raise exception '% has entries without a number', wanted;
  end if;
  execute format('alter table log_entries detach partition %I', wanted);
  execute format('revoke all on %I from gatehouse_audit', wanted);
end
$$;
