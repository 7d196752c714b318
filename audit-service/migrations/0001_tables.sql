-- The append-only, provable log (docs/audit-log-format.md).

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end
$$;

-- Also in sessions that have switched ordinary triggers off (session_replication_role).
create function make_append_only(wanted regclass) returns void language plpgsql as $$
begin
  execute format('create trigger append_only before update or delete or truncate on %s
    for each statement execute function refuse_change()', wanted);
  execute format('alter table %s enable always trigger append_only', wanted);
end
$$;
revoke all on function make_append_only(regclass) from public;

-- The order of storing; has gaps, never reused.
create sequence entry_positions;

-- What is stored once, by the day on which it occurred: that is the same however often an entry is sent, so a key of
-- one day is unique at all, and a day is forgotten by dropping its table.
-- The producer's name is in the key: no service can take a place in the count of another one.
create table stored_keys (
  position           bigint         not null default nextval('entry_positions'),
  day                date           not null,                                -- UTC, by the producer's clock
  producer_name      text           not null,                                -- from the client certificate
  producer_id        uuid           not null,                                -- one life of one producing process
  producer_sequence  bigint         not null check (producer_sequence >= 1),
  id                 uuid           not null,
  received_at        timestamptz(3) not null default date_trunc('milliseconds', now()),
  constraint stored_keys_producer_key unique (producer_id, producer_sequence, producer_name, day),
  constraint stored_keys_id_key unique (id, day)
) partition by range (day);

-- Days long ago or far ahead, by clocks that are wrong or from spools that were away for weeks. Pruned by receipt.
create table stored_keys_default partition of stored_keys default;
create index stored_keys_default_received_idx on stored_keys_default (received_at);

-- Makes the tables of today and of as many days after it; what waits in the default one moves along. For the service,
-- which may not create tables.
create function create_key_partitions(days_ahead integer) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  beginning date;
  name text;
begin
  if days_ahead not between 0 and 31 then raise exception 'days_ahead must be 0 to 31'; end if;
  perform pg_advisory_xact_lock(7031014);
  for ahead in 0..days_ahead loop
    beginning := (now() at time zone 'UTC')::date + ahead;
    name := 'stored_keys_' || to_char(beginning, 'YYYY_MM_DD');
    if to_regclass(name) is not null then continue; end if;
    execute format('create table %I (like stored_keys including defaults including constraints including indexes)', name);
    lock table stored_keys_default in share row exclusive mode;
    execute format('with moved as (delete from stored_keys_default where day = %L returning *)
      insert into %I (position, day, producer_name, producer_id, producer_sequence, id, received_at)
      select position, day, producer_name, producer_id, producer_sequence, id, received_at from moved', beginning, name);
    execute format('alter table stored_keys attach partition %I for values from (%L) to (%L)', name, beginning, beginning + 1);
  end loop;
end
$$;
revoke all on function create_key_partitions(integer) from public;

-- Forgets days that ended so many days ago. Who stores waits at most 200 ms for it, or it is tried again.
create function drop_key_partitions(kept_days integer) returns integer
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
  name text;
  dropped integer := 0;
begin
  if kept_days < 31 then raise exception 'kept_days must be 31 or more'; end if;
  for name in
    select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'stored_keys'::regclass and c.relname ~ '^stored_keys_\d{4}_\d{2}_\d{2}$'
      and to_date(substr(c.relname, 13), 'YYYY_MM_DD') < (now() at time zone 'UTC')::date - kept_days
    order by c.relname
  loop
    execute format('drop table %I', name);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
revoke all on function drop_key_partitions(integer) from public;

-- The log: every entry as it was received, in monthly partitions.
-- Text as the entry said it, cleaned, never refused; empty or 0 where an entry says nothing.
create table log_entries (
  position            bigint         not null,                              -- from stored_keys
  received_at         timestamptz(3) not null,                              -- by this database's clock
  id                  uuid           not null,
  producer_id         uuid           not null,
  producer_sequence   bigint         not null,
  producer_name       text           not null,                              -- from the client certificate
  occurred_at         timestamptz(3) not null,                              -- by the producer's clock
  kind                text           not null check (kind in ('intent', 'outcome', 'event', 'unspecified')),
  call_id             text           not null,                              -- shared by an intent and its outcome
  actor_user_id       text           not null,
  actor_role          text           not null,
  actor_session_id    text           not null,
  claimed_email_hash  text           not null,                              -- of salt and address in claimed_emails
  client_ip           text           not null,
  user_agent          text           not null,
  method              text           not null,
  route               text           not null,
  resource            text           not null,
  action              text collate "C" not null,                            -- its index serves the beginning of a name, too
  request_id          text           not null,
  trace_id            text           not null,
  outcome             text           not null check (outcome in ('', 'success', 'failure', 'unknown')),
  error_code          text           not null,
  reason              text           not null,
  http_status         integer        not null,
  latency_us          bigint         not null
) partition by range (received_at);

create index log_entries_position_idx on log_entries (position);
create index log_entries_id_idx on log_entries (id);
-- One for each filter of SearchEntries, in the order of its pages, so that a span of time is a part of an index.
create index log_entries_occurred_idx on log_entries (occurred_at, position);
create index log_entries_action_idx on log_entries (action, occurred_at, position);
create index log_entries_actor_idx on log_entries (actor_user_id, occurred_at, position) where actor_user_id <> '';
create index log_entries_resource_idx on log_entries (resource, occurred_at, position) where resource <> '';
create index log_entries_outcome_idx on log_entries (outcome, occurred_at, position) where outcome <> '';
create index log_entries_request_idx on log_entries (request_id, occurred_at, position) where request_id <> '';
-- "The failures of payments.create", when there are none: with the index of the action alone, every one of its entries was
-- read to find that out. Not for intents, which have no outcome.
create index log_entries_action_outcome_idx on log_entries (action, outcome, occurred_at, position) where outcome <> '';
-- What log 0 says of the other logs, in the order in which it was stored: no producer's clock, and nobody else's entry, comes before it.
create index log_entries_noted_idx on log_entries (resource, position)
  where action = 'audit.checkpoint_noted' and producer_name = 'audit-service' and kind = 'event';
-- Which actions have which outcomes: without it the planner takes the two for independent, and reads through an index of
-- one of them, or of the time, as if what is looked for came soon. Partitions made later copy it from the parent.
create statistics log_entries_action_outcome_stat (mcv) on action, outcome from log_entries;

-- Never needed while partitions are made ahead; with it, an entry is stored even if they were not.
create table log_entries_default partition of log_entries default;
create statistics log_entries_default_action_outcome_stat (mcv) on action, outcome from log_entries_default;

-- Makes the partition of a month. Attached when it is complete, which stops nobody who inserts.
create function create_log_partition(month date) returns void language plpgsql as $$
declare
  beginning timestamptz := date_trunc('month', month::timestamp) at time zone 'UTC';
  ending timestamptz := (date_trunc('month', month::timestamp) + interval '1 month') at time zone 'UTC';
  name text := 'log_entries_' || to_char(month, 'YYYY_MM');
begin
  if to_regclass(name) is not null then return; end if;
  execute format('create table %I (like log_entries including all)', name);
  perform make_append_only(name::regclass);
  execute format('alter table log_entries attach partition %I for values from (%L) to (%L)', name, beginning, ending);
end
$$;
revoke all on function create_log_partition(date) from public;

-- Makes the partitions of this month and as many after it. For the service, which may not create tables.
create function create_log_partitions(months_ahead integer) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if months_ahead not between 0 and 24 then raise exception 'months_ahead must be 0 to 24'; end if;
  perform pg_advisory_xact_lock(7031013);
  for ahead in 0..months_ahead loop
    perform create_log_partition((date_trunc('month', now() at time zone 'UTC') + make_interval(months => ahead))::date);
  end loop;
end
$$;
revoke all on function create_log_partitions(integer) from public;

-- Beside the log, erasable: the addresses that callers who are not logged in claimed. The log holds
-- SHA-256(salt || address).
create table claimed_emails (
  position     bigint         primary key,
  received_at  timestamptz(3) not null,
  salt         bytea          not null check (octet_length(salt) = 32),
  address      text           not null
);
-- An erasure names the address as the account had it; what was claimed is as it was typed.
create index claimed_emails_lower_idx on claimed_emails (lower(address));
create index claimed_emails_received_idx on claimed_emails using brin (received_at);

-- Intents without an outcome, so that closing them needs no look at the log.
create table open_intents (
  call_id      text           primary key,
  producer_id  uuid           not null,
  position     bigint         not null,
  received_at  timestamptz(3) not null
);
-- Found when a month is taken away: in the order of positions, which is that of receipt but for a few seconds.
create index open_intents_received_idx on open_intents (received_at);

-- When each producing process was last seen on a stream of any replica.
create table producers (
  producer_id   uuid        primary key,
  last_seen_at  timestamptz not null
);

-- The sequencer's: which entry is which leaf of the Merkle tree (RFC 9162 section 2.1), by ranges of numbers. Kept when
-- partitions of the log are removed: an old checkpoint stays provable.
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

-- Which numbers the entries of each month have, so that retention need not read the leaves of a month to know them.
create table log_months (
  month           date    primary key,                                      -- its first day, UTC, of the time of receipt
  first_sequence  bigint  not null,
  last_sequence   bigint  not null
);

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
  -- The first numbers of a month have none before them; asked all the same, the index of positions is read from end to end.
  elsif since < first then
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

-- Hashes of perfect subtrees of 2^8, 2^16, … leaves: a proof reads at most 255 hashes of each level.
create table subtrees (
  level  smallint not null check (level > 0 and level % 8 = 0),
  index  bigint   not null check (index >= 0),                              -- of the subtrees of its level, from 0
  hash   bytea    not null check (octet_length(hash) = 32),
  primary key (level, index)
);

create table checkpoints (
  origin          text        not null,
  size            bigint      not null check (size >= 1),
  root_hash       bytea       not null check (octet_length(root_hash) = 32),
  note            text        not null,                                     -- signed (C2SP tlog-checkpoint)
  floor_position  bigint      not null,                                     -- every entry up to here has its number
  created_at      timestamptz not null default now(),
  primary key (origin, size)                                                -- two of one size never differ
);
create index checkpoints_created_idx on checkpoints (created_at);

-- What retention has taken away, by partitions.
create table removals (
  first_sequence  bigint      primary key,
  last_sequence   bigint      not null check (last_sequence >= first_sequence),
  partition_name  text        not null,
  note            text        not null,                                     -- signed
  created_at      timestamptz not null default now()
);

-- Removals of which nothing is left beside the log.
create table removal_cleanups (
  first_sequence  bigint       primary key,                                   -- of the removal
  cleaned_at      timestamptz  not null default now()
);

-- Takes the partition of a removal out of the log, once nothing in it is missing from the removal and nothing behind it
-- belongs to it. The table stays, for the owner to archive and drop. By the newest checkpoint instead of by reading all:
-- the floor never falls, and nearly all of them are newer than the month that is taken away.
create function detach_log_partition(wanted text) returns void
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
revoke all on function detach_log_partition(text) from public;

-- Logins by the hour, for charts: counted from the log in the order of its numbers, each entry once. Derived from the log, and not proven.
create table login_counts (
  hour    timestamptz  not null,                                              -- in which they occurred
  kind    text         not null check (kind in ('login', 'failure', 'refusal')),
  reason  text         not null,                                              -- of a refusal
  count   bigint       not null check (count > 0),
  primary key (hour, kind, reason)
);

-- Up to which number: one row. Whoever counts locks it, and moves it with what was counted.
create table login_count_progress (
  is_only   boolean  primary key default true check (is_only),
  sequence  bigint   not null
);
insert into login_count_progress (sequence) values (0);

select make_append_only(name::regclass)
from unnest(array['log_entries', 'log_entries_default', 'leaves', 'subtrees', 'checkpoints', 'removals']) as name;
select create_key_partitions(3);
select create_log_partitions(3);
select make_leaf_partition(1, 268435456);
select create_leaf_partitions();

-- All that the service may do, beside what the database grants by default on what it may read and add to.
grant usage on sequence entry_positions to gatehouse_audit;
grant delete on stored_keys_default, claimed_emails, open_intents, producers to gatehouse_audit;
grant update on producers to gatehouse_audit;
grant select, insert, update, delete on login_counts to gatehouse_audit;
grant update on login_count_progress to gatehouse_audit;
grant execute on function create_key_partitions(integer), drop_key_partitions(integer), create_log_partitions(integer),
  detach_log_partition(text), create_leaf_partitions() to gatehouse_audit;
