-- Passkeys: credentials of WebAuthn Level 3. Not secret: the private key stays with the authenticator.
create table passkeys (
  id                 uuid        primary key,
  user_id            uuid        not null references users (id) on delete cascade,
  credential_id      bytea       not null unique check (octet_length(credential_id) between 16 and 1023),
  public_key         bytea       not null check (octet_length(public_key) between 1 and 1024), -- COSE_Key (RFC 9052 §7)
  sign_count         bigint      not null check (sign_count between 0 and 4294967295),         -- of its last use
  transports         text[]      not null check (cardinality(transports) <= 8),
  is_backup_eligible boolean     not null,                                                     -- never changes
  is_backed_up       boolean     not null check (is_backup_eligible or not is_backed_up),
  name               text        not null check (char_length(name) between 1 and 64),          -- its owner's
  created_at         timestamptz not null,
  last_used_at       timestamptz
);
create index passkeys_by_user on passkeys (user_id, created_at);

-- Challenges that no answer has used yet: an answer deletes its row, so of any number at once, one gets it.
create table passkey_challenges (
  challenge_hash bytea       primary key check (octet_length(challenge_hash) = 32), -- SHA-256
  purpose        text        not null check (purpose in ('registration', 'login', 'second_factor', 'step_up', 'approval')),
  bound_to       bytea       not null check (octet_length(bound_to) = 32), -- SHA-256 of the session or token that the answer comes with
  user_id        uuid        references users (id) on delete cascade,      -- null: a login, which may be anybody's
  session_epoch  integer,                                                  -- the user's then: what ends sessions ends the challenge
  created_at     timestamptz not null,
  expires_at     timestamptz not null check (expires_at > created_at),

  constraint passkey_challenges_latest unique (purpose, bound_to),
  constraint passkey_challenges_login_has_no_user check ((purpose = 'login') = (user_id is null)),
  constraint passkey_challenges_user_has_epoch check ((user_id is null) = (session_epoch is null))
);
create index passkey_challenges_by_end on passkey_challenges (expires_at);
create index passkey_challenges_by_user on passkey_challenges (user_id, created_at) where user_id is not null;

revoke all on passkeys, passkey_challenges from gatehouse_identity;
grant select, insert, delete on passkeys, passkey_challenges to gatehouse_identity;
grant update (sign_count, is_backed_up, name, last_used_at) on passkeys to gatehouse_identity;
grant update (challenge_hash, user_id, session_epoch, created_at, expires_at) on passkey_challenges to gatehouse_identity;
