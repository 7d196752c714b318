-- `leaves` by ranges of numbers; the table that was is the first of them, as it is. Nothing is read: that its rows belong there
-- was checked by 0009. Who numbers or reads waits for the locks of this file, not for work.
do $$
declare
  bound bigint;
  name text;
begin
  select substring(pg_get_constraintdef(oid) from '\d{9,}')::bigint into bound
  from pg_constraint where conrelid = 'leaves'::regclass and conname = 'leaves_bound_check';
  name := 'leaves_below_' || bound;
  execute format('alter table leaves rename to %I', name);
  execute format('alter index leaves_pkey rename to %I', name || '_pkey');
  execute format('alter index leaves_position_key rename to %I', name || '_position_key');
  drop index leaves_received_idx; -- nothing asks for it since 0006

  create table leaves (
    sequence     bigint         primary key,                                  -- 1, 2, 3, … without gaps: unique in all partitions
    position     bigint         not null,
    received_at  timestamptz(3) not null,                                     -- the entry's: names its partition
    leaf_hash    bytea          not null,
    chain_hash   bytea          not null,
    constraint leaves_sequence_check check (sequence >= 1),
    constraint leaves_leaf_hash_check check (octet_length(leaf_hash) = 32),
    constraint leaves_chain_hash_check check (octet_length(chain_hash) = 32)
  ) partition by range (sequence);
  execute format('alter table leaves attach partition %I for values from (1) to (%s)', name, bound);
  execute format('alter table %I drop constraint leaves_bound_check', name);
  execute format('revoke all on %I from public, gatehouse_audit', name);
end
$$;

select make_append_only('leaves');
revoke all on leaves from public, gatehouse_audit;
grant select, insert on leaves to gatehouse_audit;
create trigger months_noted after insert on leaves referencing new table as new_leaves
  for each statement execute function note_log_months();
alter table leaves enable always trigger months_noted;

-- An entry gets one number, once. Within a partition by its key; no key can say it of several. A position that has a number has one
-- of its month's numbers, and few come after a higher one: these are looked up. Runs after months_noted: by their names.
create function refuse_second_numbers() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
declare
  first bigint;
  last bigint;
  since bigint;
  highest bigint;
begin
  select min(n.sequence), max(n.sequence), min(m.first_sequence) into first, last, since
  from new_leaves as n join log_months as m on m.month = date_trunc('month', n.received_at at time zone 'UTC')::date;
  if exists (select from leaves where sequence > last) then
    highest := 9223372036854775807; -- not at the end of the log: each is looked up
  else
    select max(position) into highest from leaves where sequence >= since and sequence < first;
  end if;
  if exists (select from new_leaves group by position having count(*) > 1)
    or exists (
      select from new_leaves as n
      cross join lateral (
        select from leaves as l where l.position = n.position and l.sequence >= since and l.sequence <> n.sequence limit 1
      ) as other
      where n.position <= highest
    )
  then
    raise unique_violation using message = 'an entry has a number already', constraint = 'leaves_position_key', table = 'leaves';
  end if;
  return null;
end
$$;
revoke all on function refuse_second_numbers() from public;
create trigger numbered_once after insert on leaves referencing new table as new_leaves
  for each statement execute function refuse_second_numbers();
alter table leaves enable always trigger numbered_once;

-- Makes the partition of the numbers from `first` to below `bound`. Attached when it is complete, which stops nobody who numbers.
create function make_leaf_partition(first bigint, bound bigint) returns void language plpgsql as $$
declare
  name text := 'leaves_below_' || bound;
begin
  execute format('create table %I (like leaves including constraints, primary key (sequence), unique (position))', name);
  perform make_append_only(name::regclass);
  execute format('revoke all on %I from public, gatehouse_audit', name);
  execute format('alter table leaves attach partition %I for values from (%s) to (%s)', name, first, bound);
end
$$;
revoke all on function make_leaf_partition(bigint, bigint) from public;

-- Makes partitions of 2^28 numbers until there is room for two times as many. For the service, which may not create tables.
create function create_leaf_partitions() returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  width constant bigint := 268435456;
  bound bigint;
  reached bigint;
begin
  perform pg_advisory_xact_lock(7031015);
  select coalesce(max(sequence), 0) into reached from leaves;
  select max(substring(c.relname from '\d+$')::bigint) into bound
  from pg_inherits as i join pg_class as c on c.oid = i.inhrelid where i.inhparent = 'leaves'::regclass;
  while bound < reached + 2 * width loop
    perform make_leaf_partition(bound, bound + width);
    bound := bound + width;
  end loop;
end
$$;
revoke all on function create_leaf_partitions() from public;
grant execute on function create_leaf_partitions() to gatehouse_audit;
select create_leaf_partitions();
