-- The append-only log: every entry of every producer, as it was received.
-- Text as the entry said it, cleaned, never refused; empty or 0 where an entry says nothing.
create table entries (
  position           bigint      generated always as identity primary key, -- order of storing; has gaps, never reused
  id                 uuid        not null,
  producer_id        uuid        not null,                                 -- one life of one producing process
  producer_sequence  bigint      not null check (producer_sequence >= 1),
  producer_name      text        not null,                                 -- from the client certificate
  received_at        timestamptz not null default now(),                   -- by this database's clock
  occurred_at        timestamptz not null,                                 -- by the producer's clock
  kind               text        not null check (kind in ('intent', 'outcome', 'event', 'unspecified')),
  call_id            text        not null,                                 -- shared by an intent and its outcome
  actor_user_id      text        not null,
  actor_role         text        not null,
  actor_session_id   text        not null,
  claimed_email      text        not null,
  client_ip          text        not null,
  user_agent         text        not null,
  method             text        not null,
  route              text        not null,
  resource           text        not null,
  action             text        not null,
  request_id         text        not null,
  trace_id           text        not null,
  outcome            text        not null check (outcome in ('', 'success', 'failure', 'unknown')),
  error_code         text        not null,
  reason             text        not null,
  http_status        integer     not null,
  latency_us         bigint      not null,
  constraint entries_id_key unique (id),
  constraint entries_producer_key unique (producer_id, producer_sequence)  -- what is sent again is stored once
);

-- One for each filter of SearchEntries, in the order of its pages.
create index entries_actor_idx on entries (actor_user_id, position);
create index entries_action_idx on entries (action, position);
create index entries_resource_idx on entries (resource, position);
create index entries_outcome_idx on entries (outcome, position);
create index entries_request_idx on entries (request_id, position);
create index entries_occurred_idx on entries (occurred_at);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'audit entries are append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end
$$;

create trigger entries_append_only
  before update or delete or truncate on entries
  for each statement execute function refuse_change();
-- Also in sessions that have switched ordinary triggers off (session_replication_role).
alter table entries enable always trigger entries_append_only;

revoke all on entries from public;
grant select, insert on entries to gatehouse_audit;
