-- Which numbers the entries of each month have, so that retention need not read the leaves of a month to know them. Kept
-- by a trigger: replicas of the version before number too. While the first rows are made, numbering waits.
create table log_months (
  month           date    primary key,                                      -- its first day, UTC, of the time of receipt
  first_sequence  bigint  not null,
  last_sequence   bigint  not null
);
revoke all on log_months from public;
grant select on log_months to gatehouse_audit;

create function note_log_months() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
begin
  insert into log_months as known (month, first_sequence, last_sequence)
  select date_trunc('month', received_at at time zone 'UTC')::date, min(sequence), max(sequence)
  from new_leaves group by 1 order by 1
  on conflict (month) do update set
    first_sequence = least(known.first_sequence, excluded.first_sequence),
    last_sequence = greatest(known.last_sequence, excluded.last_sequence);
  return null;
end
$$;
revoke all on function note_log_months() from public;
create trigger months_noted after insert on leaves referencing new table as new_leaves
  for each statement execute function note_log_months();
alter table leaves enable always trigger months_noted;

insert into log_months (month, first_sequence, last_sequence)
select date_trunc('month', received_at at time zone 'UTC')::date, min(sequence), max(sequence) from leaves group by 1;

-- As before, by log_months instead of by reading leaves.
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
  if last_position > (select max(floor_position) from checkpoints where size >= last) then
    raise exception '% has entries without a number', wanted;
  end if;
  execute format('alter table log_entries detach partition %I', wanted);
  execute format('revoke all on %I from gatehouse_audit', wanted);
end
$$;

-- Removals of which nothing is left beside the log. Those of the version before are gone through once more.
create table removal_cleanups (
  first_sequence  bigint       primary key,                                   -- of the removal
  cleaned_at      timestamptz  not null default now()
);
revoke all on removal_cleanups from public;
grant select, insert on removal_cleanups to gatehouse_audit;

-- Found when a month is taken away: in the order of positions, which is that of receipt but for a few seconds.
create index open_intents_received_idx on open_intents (received_at);
