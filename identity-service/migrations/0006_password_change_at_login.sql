-- An administrator wants another password: the next login gives no session before one is set.
alter table users add column must_change_password boolean not null default false;
-- Goes up with each new password, not with a rehash: devices known under an older one are strangers.
alter table users add column password_epoch integer not null default 0 check (password_epoch >= 0);

grant update (must_change_password, password_epoch) on users to gatehouse_identity;

-- Logins whose credentials were right and whose new password is missing.
create table password_change_challenges (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the tempToken
  user_id       uuid        not null references users (id) on delete cascade,
  session_epoch integer     not null, -- the user's when the credentials were right: what ends sessions ends the challenge
  amr           text[]      not null check (cardinality(amr) > 0), -- how: goes into the session
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 5),
  consumed_at   timestamptz
);
create index password_change_challenges_by_user on password_change_challenges (user_id);
create index password_change_challenges_by_end on password_change_challenges (expires_at);

revoke all on password_change_challenges from gatehouse_identity;
grant select, insert, delete on password_change_challenges to gatehouse_identity;
grant update (attempts, consumed_at) on password_change_challenges to gatehouse_identity;

-- What the audit log must be told, written in the transaction of its cause and delivered after it.
create table security_events (
  id              uuid        primary key,
  type            text        not null check (type ~ '^[a-z][a-z_]{0,63}$'),
  user_id         uuid        not null, -- no foreign key: it outlives the account
  actor_id        uuid,                 -- who did it, where that is proven
  actor_role      text        check (char_length(actor_role) <= 32),
  session_id      uuid,                 -- the actor's
  reason          text        not null default '' check (char_length(reason) <= 200),
  error_code      text        check (char_length(error_code) <= 64), -- of what failed; null: it succeeded
  ip              text        not null default '' check (char_length(ip) <= 45),
  user_agent      text        not null default '' check (char_length(user_agent) <= 512),
  request_id      text        not null default '' check (char_length(request_id) <= 64),
  trace_id        text        not null default '' check (char_length(trace_id) <= 64),
  occurred_at     timestamptz not null,
  next_attempt_at timestamptz not null,
  recorded_at     timestamptz -- by audit-service
);
create index security_events_due on security_events (next_attempt_at) where recorded_at is null;
create index security_events_done on security_events (recorded_at) where recorded_at is not null;

revoke all on security_events from gatehouse_identity;
grant select, insert, delete on security_events to gatehouse_identity;
grant update (next_attempt_at, recorded_at) on security_events to gatehouse_identity;

-- Part of an address or name in any case, of any script: the address is of collation "C", which folds ASCII only.
-- pg_trgm is a trusted extension: the database's owner may create it.
create extension if not exists pg_trgm;
create index users_by_text on users
  using gin (lower((email || ' ' || first_name || ' ' || last_name) collate "und-x-icu") gin_trgm_ops);
