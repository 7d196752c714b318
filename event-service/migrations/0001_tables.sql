-- Webhooks: where events are sent, and what became of each (docs/decisions/events.md). The events themselves are in the audit log.

create table endpoints (
  id                   uuid primary key,                                      -- UUIDv7
  kind                 text        not null default 'webhook' check (kind in ('webhook', 'push', 'poll')),
  client_id            text        unique,                                    -- of the receiver of a stream of Shared Signals
  name                 text        not null check (char_length(name) between 1 and 100),
  url                  text        not null check (char_length(url) <= 2048),
  types                text[]      not null check (cardinality(types) between 1 and 50),
  owner_id             uuid,                                                  -- a user of identity-service
  is_temporary         boolean     not null default false,
  status               text        not null default 'active' check (status in ('active', 'paused')),
  paused_reason        text        check (paused_reason in ('asked', 'failing', 'gone', 'disabled', 'forbidden')),
  untold_pause_at      timestamptz(3),                                        -- until the audit log and the owner know of it
  secret               bytea       not null,                                  -- encrypted
  former_secret        bytea,
  former_secret_until  timestamptz(3),
  places               jsonb       not null,                                  -- by number of a log: the last event that was dealt with
  version              bigint      not null default 1,                        -- what somebody changes ends what a courier has begun
  failures             integer     not null default 0 check (failures >= 0),  -- attempts that failed since the last that did not
  failing_since        timestamptz(3),
  rests_until          timestamptz(3),
  lease_holder         uuid,
  leased_until         timestamptz(3),
  created_at           timestamptz(3) not null,
  changed_at           timestamptz(3) not null,
  constraint endpoints_stream_check check ((kind = 'webhook') = (client_id is null) and (kind = 'poll') = (url = '')),
  constraint endpoints_paused_check check ((status = 'paused') = (paused_reason is not null)),
  constraint endpoints_former_secret_check check ((former_secret is null) = (former_secret_until is null))
);

-- Which replicas share the endpoints.
create table replicas (
  id       uuid primary key,
  seen_at  timestamptz(3) not null
);

create table deliveries (
  endpoint_id      uuid     not null references endpoints on delete cascade,
  event_id         uuid     not null,                                         -- UUIDv7
  log              smallint not null,
  sequence         bigint   not null,
  type             text     not null,
  subject          text     not null,
  state            text     not null check (state in ('waiting', 'delivered', 'given_up')),
  body             text,
  attempts         integer  not null default 0 check (attempts >= 0),
  http_status      smallint not null default 0,
  problem          text     not null default '',
  duration_ms      integer  not null default 0,
  attempted_at     timestamptz(3),
  next_attempt_at  timestamptz(3),
  primary key (endpoint_id, event_id),
  constraint deliveries_waiting_check check ((state = 'waiting') = (body is not null and next_attempt_at is not null))
);
create index deliveries_waiting_idx on deliveries (endpoint_id, log, sequence) where state = 'waiting';

-- Where the collectors of the operator's SIEM are in the audit log. One row for each kind that was ever configured.
create table siem_collectors (
  name           text  primary key check (name in ('otlp', 'syslog', 'segments')),
  places         jsonb not null default '{}',                                 -- by number of a log: the last entry that it has
  failing_since  timestamptz(3),
  problem        text  not null default '',
  lease_holder   uuid,
  leased_until   timestamptz(3)
);

-- By log: the segment that is written now, or was written last. Stored before it is written, so that it is the same after a crash.
create table siem_segments (
  log                    smallint primary key,
  first_sequence         bigint   not null,
  last_sequence          bigint   not null,
  former_first_sequence  bigint,
  constraint siem_segments_order_check check (first_sequence <= last_sequence)
);
