-- The second factor of an account: a TOTP secret, from its set-up on; it counts once it is confirmed.
create table totp_credentials (
  user_id          uuid        primary key references users (id) on delete cascade,
  secret_encrypted bytea       not null check (octet_length(secret_encrypted) = 12 + 20 + 16), -- AES-256-GCM: nonce, secret, tag
  key_id           text        not null check (key_id ~ '^[0-9a-f]{16}$'), -- of the key-encryption key
  created_at       timestamptz not null,
  confirmed_at     timestamptz check (confirmed_at >= created_at),
  last_step        bigint      not null default 0 -- the last time step whose code was accepted: RFC 6238 §5.2
);
create index totp_credentials_by_key on totp_credentials (key_id);

-- Codes that were not used yet: a use deletes its row.
create table recovery_codes (
  user_id    uuid        not null references users (id) on delete cascade,
  code_hash  bytea       not null check (octet_length(code_hash) = 32), -- SHA-256: enough at 80 bits
  created_at timestamptz not null,
  primary key (user_id, code_hash)
);

-- Logins whose password was right and whose code is missing.
create table mfa_challenges (
  token_hash  bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the tempToken
  user_id     uuid        not null references users (id) on delete cascade,
  created_at  timestamptz not null,
  expires_at  timestamptz not null check (expires_at > created_at),
  attempts    integer     not null default 0 check (attempts between 0 and 5),
  consumed_at timestamptz,
  session_epoch integer    not null, -- the user's when the password was right: what ends sessions ends the challenge
  ip          text        not null check (char_length(ip) <= 45),          -- where the password came from
  user_agent  text        not null check (char_length(user_agent) <= 512)
);
create index mfa_challenges_by_user on mfa_challenges (user_id);
create index mfa_challenges_by_end on mfa_challenges (expires_at);

-- Wrong codes of the last 15 minutes, over all challenges of an account.
create table mfa_failures (
  id        uuid        primary key,
  user_id   uuid        not null references users (id) on delete cascade,
  failed_at timestamptz not null
);
create index mfa_failures_by_user on mfa_failures (user_id, failed_at);

revoke all on totp_credentials, recovery_codes, mfa_challenges, mfa_failures from gatehouse_identity;
grant select, insert, delete on totp_credentials, recovery_codes, mfa_challenges, mfa_failures to gatehouse_identity;
grant update (secret_encrypted, key_id, created_at, confirmed_at, last_step) on totp_credentials to gatehouse_identity;
grant update (attempts, consumed_at) on mfa_challenges to gatehouse_identity;
