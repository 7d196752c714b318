-- A session and the state of its refresh chain. No token text is stored: which refresh token is which is
-- decided by its generation.
create table sessions (
  id             uuid        primary key,
  user_id        uuid        not null,
  role           text        not null check (role in ('USER', 'ADMIN', 'AUDITOR')),
  amr            text[]      not null check (cardinality(amr) > 0),
  auth_time      timestamptz not null,
  token_secret   bytea       not null check (octet_length(token_secret) = 32), -- proves a refresh token beyond its signature
  generation     integer     not null check (generation >= 1),                 -- of the live refresh token, the leaf
  rotated_at     timestamptz not null,
  leaf_seen      boolean     not null default false, -- an access token of this generation was verified somewhere
  created_at     timestamptz not null,
  last_used_at   timestamptz not null,
  idle_end       timestamptz not null check (idle_end <= absolute_end),
  absolute_end   timestamptz not null check (absolute_end > created_at),
  revoked_at     timestamptz,
  revoked_reason text,
  ip             text        not null default '',
  user_agent     text        not null default '',
  check ((revoked_at is null) = (revoked_reason is null))
) with (fillfactor = 80); -- a refresh rewrites its row: with room on the page, and no index on what changes, in place
create index sessions_live_by_user on sessions (user_id, created_at) where revoked_at is null;

-- What stops being accepted before it expires. Numbered without gaps and in commit order, because the number
-- comes from a row that stays locked until the commit.
create table revocations (
  sequence   bigint      primary key check (sequence >= 1),
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
  id                text        primary key, -- kid
  algorithm         text        not null check (algorithm in ('EdDSA', 'ES256')),
  state             text        not null check (state in ('next', 'active', 'retired', 'revoked')),
  public_jwk        jsonb       not null,
  private_encrypted bytea,                   -- gone once it can no longer be needed
  encryption_key_id text        not null,
  created_at        timestamptz not null,
  activated_at      timestamptz,
  retired_at        timestamptz,
  check (private_encrypted is not null or state in ('retired', 'revoked'))
);
create unique index signing_keys_one_active on signing_keys (state) where state = 'active';
create unique index signing_keys_one_next on signing_keys (state) where state = 'next';

grant select, insert, update, delete on sessions, signing_keys to gatehouse_token;
grant select, insert, delete on revocations to gatehouse_token;
grant select, update on revocation_head to gatehouse_token;
