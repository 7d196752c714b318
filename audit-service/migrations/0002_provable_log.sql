-- The provable log. `entries` stays as it is for replicas of the version before, whose inserts a trigger brings over;
-- 0003 brings over what is already there. A later release drops it.

-- What is stored once. Apart from the log, because a unique key of a partitioned table must hold its partition key.
-- Pruned by age, after 31 days.
create table entry_keys (
  position           bigint         generated always as identity,           -- order of storing; has gaps, never reused
  producer_id        uuid           not null,                               -- one life of one producing process
  producer_sequence  bigint         not null check (producer_sequence >= 1),
  id                 uuid           not null,
  received_at        timestamptz(3) not null default date_trunc('milliseconds', now()),
  constraint entry_keys_producer_key unique (producer_id, producer_sequence), -- what is sent again is stored once
  constraint entry_keys_id_key unique (id)
);
create index entry_keys_received_idx on entry_keys using brin (received_at);

-- The log: every entry as it was received, in monthly partitions.
-- Text as the entry said it, cleaned, never refused; empty or 0 where an entry says nothing.
create table log_entries (
  position            bigint         not null,                              -- from entry_keys
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
  action              text           not null,
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

-- The sequencer's: which entry is which leaf of the Merkle tree (RFC 9162 section 2.1). Kept when partitions of the
-- log are removed: an old checkpoint stays provable.
create table leaves (
  sequence     bigint         primary key check (sequence >= 1),            -- 1, 2, 3, … without gaps
  position     bigint         not null,
  received_at  timestamptz(3) not null,                                     -- the entry's: names its partition
  leaf_hash    bytea          not null check (octet_length(leaf_hash) = 32),
  chain_hash   bytea          not null check (octet_length(chain_hash) = 32),
  constraint leaves_position_key unique (position)                          -- an entry gets one number, once
);
create index leaves_received_idx on leaves using brin (received_at) with (pages_per_range = 16, autosummarize = on);

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

-- Beside the log, erasable: the addresses that callers who are not logged in claimed. The log holds
-- SHA-256(salt || address).
create table claimed_emails (
  position     bigint         primary key,
  received_at  timestamptz(3) not null,
  salt         bytea          not null check (octet_length(salt) = 32),
  address      text           not null
);
create index claimed_emails_address_idx on claimed_emails (address);
create index claimed_emails_received_idx on claimed_emails using brin (received_at);

-- Intents without an outcome, so that closing them needs no look at the log.
create table open_intents (
  call_id      text           primary key,
  producer_id  uuid           not null,
  position     bigint         not null,
  received_at  timestamptz(3) not null
);

-- When each producing process was last seen on a stream of any replica.
create table producers (
  producer_id   uuid        primary key,
  last_seen_at  timestamptz not null
);

create or replace function refuse_change() returns trigger language plpgsql as $$
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
grant execute on function create_log_partitions(integer) to gatehouse_audit;

-- Takes the partition of a removal out of the log, once nothing in it is missing from the removal and nothing behind it
-- belongs to it. The table stays, for the owner to archive and drop.
create function detach_log_partition(wanted text) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  last bigint;
  ending timestamptz;
  last_position bigint;
begin
  perform pg_advisory_xact_lock(7031013);
  if wanted !~ '^log_entries_\d{4}_\d{2}$'
    or not exists (select from pg_inherits where inhrelid = to_regclass(wanted) and inhparent = 'log_entries'::regclass)
  then return; end if;
  select last_sequence into last from removals where partition_name = wanted;
  if last is null then raise exception 'no removal of % is on record', wanted; end if;
  ending := (to_date(substr(wanted, 13), 'YYYY_MM')::timestamp + interval '1 month') at time zone 'UTC';
  if exists (select from leaves where sequence > last and received_at < ending) then
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
revoke all on function detach_log_partition(text) from public;
grant execute on function detach_log_partition(text) to gatehouse_audit;

-- Never needed while partitions are made ahead; with it, an entry is stored even if they were not.
create table log_entries_default partition of log_entries default;
select make_append_only(name::regclass)
from unnest(array['log_entries', 'log_entries_default', 'leaves', 'subtrees', 'checkpoints', 'removals']) as name;
select create_log_partitions(3);

revoke all on entry_keys, log_entries, leaves, subtrees, checkpoints, removals, claimed_emails, open_intents, producers
  from public;
grant select, insert on entry_keys, log_entries, leaves, subtrees, checkpoints, removals, claimed_emails, open_intents,
  producers to gatehouse_audit;
-- None of these is the log.
grant delete on entry_keys, claimed_emails, open_intents, producers to gatehouse_audit;
grant update on producers to gatehouse_audit;

-- Brings what a replica of the version before stores into the log, in its own transaction. An id that the log holds under
-- another number gets a new one: an event could be there twice then, but never be missing.
create function carry_entries_over() returns trigger language plpgsql as $$
begin
  with source as materialized (
    select e.*,
      case when exists (select from entry_keys as k where k.id = e.id) then gen_random_uuid() else e.id end as free_id,
      decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex') as salt
    from new_entries as e
    where not exists (
      select from entry_keys as k where (k.producer_id, k.producer_sequence) = (e.producer_id, e.producer_sequence)
    )
    order by e.position
  ), keys as (
    insert into entry_keys (producer_id, producer_sequence, id, received_at)
    select producer_id, producer_sequence, free_id, date_trunc('milliseconds', received_at) from source
    on conflict (producer_id, producer_sequence) do nothing
    returning position, producer_id, producer_sequence, id, received_at
  ), stored as (
    insert into log_entries
    select k.position, k.received_at, k.id, k.producer_id, k.producer_sequence, s.producer_name,
      date_trunc('milliseconds', s.occurred_at), s.kind, s.call_id, s.actor_user_id, s.actor_role, s.actor_session_id,
      case when s.claimed_email = '' then ''
        else encode(sha256(s.salt || convert_to(s.claimed_email, 'UTF8')), 'hex') end,
      s.client_ip, s.user_agent, s.method, s.route, s.resource, s.action, s.request_id, s.trace_id, s.outcome,
      s.error_code, s.reason, s.http_status, s.latency_us
    from keys as k join source as s using (producer_id, producer_sequence)
  ), emails as (
    insert into claimed_emails (position, received_at, salt, address)
    select k.position, k.received_at, s.salt, s.claimed_email
    from keys as k join source as s using (producer_id, producer_sequence)
    where s.claimed_email <> ''
  ), opened as (
    insert into open_intents (call_id, producer_id, position, received_at)
    select s.call_id, k.producer_id, k.position, k.received_at
    from keys as k join source as s using (producer_id, producer_sequence)
    where s.kind = 'intent' and s.call_id <> ''
      and not exists (select from source as o where o.kind = 'outcome' and o.call_id = s.call_id)
    on conflict (call_id) do nothing
  )
  delete from open_intents where call_id in (select call_id from source where kind = 'outcome');
  return null;
end
$$;

create trigger entries_carried_over
  after insert on entries referencing new table as new_entries
  for each statement execute function carry_entries_over();
alter table entries enable always trigger entries_carried_over;
