-- Which part of the users this database has (docs/decisions/parts.md). `migrate` sets its number; unset: the only part, or the first.
create table part (
  only_row boolean  primary key default true check (only_row),
  number   smallint not null default coalesce(current_setting('gatehouse.part', true), '0')::smallint check (number >= 0),
  changes  bigint   not null default 0 -- of slots
);
insert into part default values;

-- The users' slots, hashes of their ids. A slot is `here` in at most one database. Whoever adds to a user's sessions, or
-- ends all of them, holds its row: it cannot leave before they are committed.
create table slots (
  slot  smallint primary key check (slot between 0 and 4095),
  state text     not null check (state in ('here', 'leaving', 'away')),
  epoch bigint   not null default 0, -- of the last move from or to this database
  peer  smallint,                    -- the number of the other one
  check (state <> 'leaving' or peer is not null)
);
create index slots_leaving on slots (slot) where state = 'leaving';
insert into slots (slot, state)
  select slot, case when part.number = 0 then 'here' else 'away' end from generate_series(0, 4095) as slot, part;

-- Sessions of slots that are leaving, until their new database has them.
create table leaving_sessions (
  slot    smallint not null references slots,
  id      uuid     not null,
  session jsonb    not null,
  primary key (slot, id)
);

-- A session and the state of its refresh chain. No token text is stored: which refresh token is which is
-- decided by its generation.
create table sessions (
  id             uuid        primary key, -- ends with the user's slot, in three hexadecimal digits
  user_id        uuid        not null,
  role           text        not null, -- of access.yaml
  amr            text[]      not null check (cardinality(amr) > 0),
  acr            smallint    not null check (acr in (1, 2, 3)), -- level of assurance
  auth_time      timestamptz not null,
  token_secret   bytea       not null check (octet_length(token_secret) = 32), -- proves a refresh token beyond its MAC
  generation     integer     not null check (generation >= 1),                 -- of the live refresh token, the leaf
  rotated_at     timestamptz not null,
  leaf_seen      boolean     not null default false, -- an access token of this generation was verified somewhere
  last_signed_at timestamptz not null, -- any token of the session, by the database's clock: a repeated refresh signs too, and moves nothing else
  jkt            text,                 -- the key (DPoP) or the certificate that its tokens are bound to; null: bearer tokens
  x5t_s256       text,
  device_key     jsonb,                -- public, of the browser's device (DBSC); null: not bound to one
  device_proofs  integer     not null default 0 check ((device_proofs > 0) = (device_key is not null)), -- each challenge names its number
  created_at     timestamptz not null,
  last_used_at   timestamptz not null,
  idle_s         integer     check (idle_s > 0), -- how long it may rest between refreshes; null: as the service is set
  idle_end       timestamptz not null check (idle_end <= absolute_end),
  absolute_end   timestamptz not null check (absolute_end > created_at),
  revoked_at     timestamptz,
  revoked_reason text,
  ip             text        not null default '',
  user_agent     text        not null default '',

  check ((revoked_at is null) = (revoked_reason is null)),
  constraint sessions_role_name check (role ~ '^[A-Z][A-Z0-9_]{0,31}$'),
  constraint sessions_binding check (
    num_nonnulls(jkt, x5t_s256) <= 1 and coalesce(jkt, x5t_s256, repeat('A', 43)) ~ '^[A-Za-z0-9_-]{43}$'
  )
) with (fillfactor = 80); -- a refresh rewrites its row: with room on the page, and no index on what changes, in place
create index sessions_live_by_user on sessions (user_id, created_at) where revoked_at is null;
-- When a slot moves to another database.
create index sessions_by_slot on sessions (right(id::text, 3));
-- When an account is erased, where its ended sessions were used from goes with it.
create index sessions_ended_by_user on sessions (user_id) where revoked_at is not null;

-- What stops being accepted before it expires. Numbered without gaps and in commit order, because the number
-- comes from a row that stays locked until the commit.
create table revocations (
  sequence   bigint      primary key check (sequence >= 1),
  -- A random mark. A reader names the number and the mark of the last entry that it read: a log that lost entries in a
  -- fail-over, and gave their numbers to others since, has other marks there.
  tip        uuid        not null default gen_random_uuid(),
  session_id uuid,
  key_id     text,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  check (num_nonnulls(session_id, key_id) = 1)
);
create index revocations_by_end on revocations (expires_at);

create table revocation_head (
  only_row boolean primary key default true check (only_row),
  sequence bigint  not null check (sequence >= 0)
);
insert into revocation_head (sequence) values (0);

create table signing_keys (
  id                       text        primary key, -- kid
  algorithm                text        not null check (algorithm in ('EdDSA', 'ES256')),
  state                    text        not null check (state in ('next', 'active', 'retired', 'revoked')),
  public_jwk               jsonb       not null,
  private_encrypted        bytea,                   -- gone once it can no longer be needed
  encryption_key_id        text        not null,
  refresh_secret_encrypted bytea       not null,    -- authenticates refresh tokens; stays as long as the public key
  refresh_secret_key_id    text        not null,
  created_at               timestamptz not null,
  activated_at             timestamptz,
  retired_at               timestamptz,
  check (private_encrypted is not null or state in ('retired', 'revoked'))
);
create unique index signing_keys_one_active on signing_keys (state) where state = 'active';
create unique index signing_keys_one_next on signing_keys (state) where state = 'next';

-- For other services: written in the transaction of its cause and delivered after it. A row is done when both have taken it.
create table security_events (
  id              uuid        primary key,
  type            text        not null check (type in
    ('refresh_reuse', 'signing_key_rotated', 'signing_key_revoked', 'session_revoked', 'session_ended', 'session_raised',
     'all_sessions_revoked', 'device_bound', 'device_refused')),
  user_id         uuid,
  session_id      uuid,
  key_id          text,
  person          text, -- the operator whose certificate the call was made with: operator:ada
  reason          text        not null default '',
  ip              text        not null default '',
  user_agent      text        not null default '',
  request_id      text        not null default '',
  trace_id        text        not null default '',
  occurred_at     timestamptz not null,
  attempts        integer     not null default 0,
  next_attempt_at timestamptz not null,
  recorded_at     timestamptz, -- by audit-service
  notified_at     timestamptz, -- by identity-service; also set when there is nobody to notify
  check (type <> 'refresh_reuse' or (user_id is not null and session_id is not null))
);
create index security_events_due on security_events (next_attempt_at) where recorded_at is null or notified_at is null;
-- Delivered events are looked for every minute, and deleted after a day.
create index security_events_done on security_events (recorded_at)
  where recorded_at is not null and notified_at is not null;
-- The age of the oldest one is asked for every few seconds.
create index security_events_waiting on security_events (occurred_at)
  where recorded_at is null or notified_at is null;

-- All that the service may do, whatever the database grants by default. An extension's relations belong to others.
do $$ begin
  execute (
    select format('revoke all on %s from gatehouse_token', string_agg(format('%I.%I', schemaname, tablename), ', '))
    from pg_tables where schemaname = current_schema() and tableowner = current_user
  );
end $$;
grant select, insert, update, delete on sessions, signing_keys, security_events to gatehouse_token;
grant select, insert, delete on revocations to gatehouse_token;
grant select, update on revocation_head, part, slots to gatehouse_token;
grant select, insert, delete on leaving_sessions to gatehouse_token;
