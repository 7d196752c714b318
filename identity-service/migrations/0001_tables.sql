-- pg_trgm is a trusted extension: the database's owner may create it.
create extension if not exists pg_trgm;

-- In small letters of every script, without accents, joiners and ligatures: jose finds José, and gross Groß. Hangul is
-- whole again afterwards.
create function folded(written text) returns text language sql immutable strict parallel safe as $$
  select replace(replace(replace(translate(normalize(regexp_replace(normalize(lower(written collate "und-x-icu"), nfd),
    '[\u0300-\u036f\u200c\u200d]', '', 'g'), nfc), 'øłđðı', 'olddi'), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe')
$$;

create table users (
  id                   uuid        primary key, -- UUIDv7, made by the service
  email                text        collate "C" not null, -- canonical: see canonical-email.ts
  first_name           text        not null check (char_length(first_name) between 1 and 100),
  last_name            text        not null, -- empty: a person with one name
  role                 text        not null, -- of access.yaml
  status               text        not null check (status in ('active', 'disabled')),
  password_hash        text, -- PHC string, also of other systems: foreign-hash.ts says which. Null: no password
  must_change_password boolean     not null default false, -- an administrator wants another one before the next session
  password_epoch       integer     not null default 0 check (password_epoch >= 0), -- up with each new password, not with a rehash
  session_epoch        integer     not null default 0 check (session_epoch >= 0),  -- up with each change that ends sessions
  email_verified       boolean     not null,
  -- The address whose mailbox was read by whoever held the account's credentials, and when that was shown last. The
  -- credentials count as proven while it is the account's address.
  credentials_proven_email text    collate "C" check (octet_length(credentials_proven_email) <= 254),
  credentials_proven_at timestamptz,
  has_second_factor    boolean     not null default false, -- for lists: see note_second_factor
  first_login_at       timestamptz, -- decides whether a login on an unknown device is news to its owner
  last_login_at        timestamptz, -- when the last session began
  language             text        check (language ~ '^[A-Za-z0-9-]{2,35}$'), -- of mails: canonical BCP 47 tag. Null: nobody has said
  time_zone            text        check (time_zone ~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'), -- of mails: IANA name. Null: nobody has said
  created_at           timestamptz not null,
  updated_at           timestamptz not null check (updated_at >= created_at),
  -- What a search looks in. Each word begins after a space. First and last name stand in either order, with a space between
  -- and without. Stored, because an index of trigrams only says where to look: to fold what is there takes 18 µs a user.
  searched             text        not null generated always as (folded(
    ' ' || email || ' ' || first_name || ' ' || last_name || ' ' || first_name || ' '
    || replace(last_name || first_name || last_name, ' ', ''))) stored,

  constraint users_email_key unique (email),
  -- The service canonicalises; this stops a path that forgot to from making a second account of one mailbox.
  constraint users_email_canonical check (
    octet_length(email) <= 254
    and email ~ '^[^@[:space:][:cntrl:]]+@[a-z0-9-]+([.][a-z0-9-]+)+$'
    and email !~ '[A-Z]'
  ),
  constraint users_last_name_length check (char_length(last_name) <= 100),
  constraint users_role_name check (role ~ '^[A-Z][A-Z0-9_]{0,31}$'),
  constraint users_password_hash_form check (
    password_hash ~ '^[$](argon2(id|i|d)|pbkdf2-sha(1|256|512)|scrypt|2[aby])[$]' and char_length(password_hash) <= 256
  ),
  constraint users_proof_is_whole check ((credentials_proven_email is null) = (credentials_proven_at is null))
);
-- Administrators look for the few: the list of all is read by the primary key, which is in the order of time.
create index users_privileged on users (role, id) where role <> 'USER';
create index users_by_second_factor on users (has_second_factor, id);
-- Those who have never logged in come first.
create index users_by_last_login on users (coalesce(last_login_at, '-infinity'), id);
create index users_disabled on users (id) where status = 'disabled';
-- Users whose role the access file does not name are counted every minute.
create index users_by_role on users (role);
create index users_by_searched on users using gin (searched gin_trgm_ops);
-- Of a text that one of 400 users has or more, the planner finds out by the samples: to walk the list is shorter then.
alter table users alter column searched set statistics 400;
-- Accounts that may be unused, in the order in which they are looked at.
create index users_unused on users (role, created_at, id)
  where not email_verified and first_login_at is null and status = 'active';

-- Addresses that an account has had: with it goes what the audit log knows of who claimed them.
create table former_addresses (
  user_id uuid not null references users (id) on delete cascade,
  email   text collate "C" not null check (octet_length(email) between 3 and 254), -- canonical
  primary key (user_id, email)
);

-- Addresses that nobody had proven when their owner deleted the account: not to be registered again so soon.
create table released_addresses (
  email_digest bytea       primary key check (octet_length(email_digest) = 32), -- SHA-256 of the canonical address
  until        timestamptz not null
);
create index released_addresses_by_end on released_addresses (until);

-- Mails to be sent, each written in the transaction of its cause; for 30 days what is left of those that are done.
create table mail_outbox (
  id              uuid        primary key, -- the cause's: one mail each, however often it is repeated
  user_id         uuid        not null,    -- no foreign key: the last mail of an account outlives it
  template        text        not null check (template ~ '^[a-z0-9-]{1,64}$'),
  recipient       text        collate "C" check (octet_length(recipient) between 3 and 254), -- null once done: personal data
  data            jsonb       check (jsonb_typeof(data) = 'object' and octet_length(data::text) <= 8192), -- null once done
  created_at      timestamptz not null,
  next_attempt_at timestamptz not null, -- during an attempt: the end of its lease
  attempts        integer     not null default 0 check (attempts >= 0),
  last_error      text        check (char_length(last_error) <= 64), -- what kind of failure, nothing that a server wrote
  sent_at         timestamptz,
  given_up_at     timestamptz,

  constraint mail_outbox_one_end check (num_nonnulls(sent_at, given_up_at) <= 1),
  constraint mail_outbox_forgets_what_is_done check (
    num_nonnulls(recipient, data) = case num_nonnulls(sent_at, given_up_at) when 0 then 2 else 0 end
  )
);
create index mail_outbox_by_user on mail_outbox (user_id);
create index mail_outbox_waiting_by_attempt on mail_outbox (next_attempt_at) where sent_at is null and given_up_at is null;
create index mail_outbox_waiting_by_age on mail_outbox (created_at) where sent_at is null and given_up_at is null;
create index mail_outbox_by_age on mail_outbox (created_at);
create index mail_outbox_given_up on mail_outbox (given_up_at) where given_up_at is not null;

-- Mails that a stranger can cause, for a day: by what is left of their recipient, so that deleting the account and
-- making it anew resets nothing. No account: a foreign key would lock its row.
create table counted_mails (
  id               uuid        primary key,
  recipient_digest bytea       not null check (octet_length(recipient_digest) = 32), -- SHA-256 of the canonical address
  kind             text        not null check (kind in ('stranger', 'reset')),
  created_at       timestamptz not null
);
create index counted_mails_by_recipient on counted_mails (recipient_digest, kind, created_at);
create index counted_mails_by_age on counted_mails (created_at);

-- Links of mails. What a mail carries is made from the id with a key that is not here: see links.ts.
create table links (
  id          uuid        primary key,
  token_hash  bytea       not null unique check (octet_length(token_hash) = 32), -- SHA-256
  purpose     text        not null check (
    purpose in ('verify_email', 'reset_password', 'confirm_email_change', 'undo_email_change', 'undo_access_change')
  ),
  user_id     uuid        not null references users (id) on delete cascade,
  new_email   text        collate "C" check (octet_length(new_email) between 3 and 254), -- what the address becomes
  are_credentials_proven boolean not null default false, -- of a link that gives an address back: whether they were when it was left
  is_vouched  boolean     not null default false, -- a change of address that an administrator began: its reader shows no password
  session_id  uuid,       -- in which the change was begun, and with which it ends; null: by nobody who was logged in
  created_at  timestamptz not null,
  expires_at  timestamptz not null check (expires_at > created_at),
  consumed_at timestamptz, -- used, or killed by a newer one or by a change

  constraint links_changes_name_an_address check (
    (new_email is not null) = (purpose in ('confirm_email_change', 'undo_email_change'))
  )
);
create index links_by_user on links (user_id, purpose, created_at);
create index links_by_end on links (expires_at);
create index links_open_undo on links (new_email) where purpose = 'undo_email_change' and consumed_at is null;

-- The second factor of an account: a TOTP secret, from its set-up on; it counts once it is confirmed.
create table totp_credentials (
  user_id          uuid        primary key references users (id) on delete cascade,
  secret_encrypted bytea       not null check (octet_length(secret_encrypted) = 12 + 20 + 16), -- AES-256-GCM: nonce, secret, tag
  key_id           text        not null check (key_id ~ '^[0-9a-f]{16}$'), -- of the key-encryption key
  created_at       timestamptz not null,
  confirmed_at     timestamptz check (confirmed_at >= created_at),
  last_step        bigint      not null default 0 -- the last time step whose code was accepted: RFC 6238 §5.2
);
-- Re-encryption reads the secrets of a key in the order of their users, whatever the statistics say of how many are left.
create index totp_credentials_by_key_and_user on totp_credentials (key_id, user_id);

-- Codes that were not used yet: a use deletes its row.
create table recovery_codes (
  user_id    uuid        not null references users (id) on delete cascade,
  code_hash  bytea       not null check (octet_length(code_hash) = 32), -- SHA-256: enough at 80 bits
  created_at timestamptz not null,
  primary key (user_id, code_hash)
);

-- Wrong codes of a day, those from devices that have passed the second factor apart from all others.
create table mfa_failures (
  id              uuid        primary key,
  user_id         uuid        not null references users (id) on delete cascade,
  failed_at       timestamptz not null,
  on_known_device boolean     not null default false
);
create index mfa_failures_by_user on mfa_failures (user_id, failed_at);
create index mfa_failures_by_age on mfa_failures (failed_at);

-- How far guessing at an account's codes has got. A row from the first wrong code on.
create table mfa_guessing (
  user_id          uuid        primary key references users (id) on delete cascade,
  unknown_in_a_row integer     not null default 0 check (unknown_in_a_row >= 0), -- wrong codes since the last right one
  known_in_a_row   integer     not null default 0 check (known_in_a_row >= 0),   -- the same on known devices
  forgiven_at      timestamptz -- when a new password last made the wrong codes before it count no more
);

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

-- Lists select by it with the order of an index. What is allowed is decided by the second factors themselves.
create function note_second_factor() returns trigger language plpgsql as $$
declare
  owner_id constant uuid := coalesce(new.user_id, old.user_id);
  is_there constant boolean := exists (select from passkeys where user_id = owner_id)
    or exists (select from totp_credentials where user_id = owner_id and confirmed_at is not null);
begin
  update users set has_second_factor = is_there where id = owner_id and has_second_factor <> is_there;
  return null;
end
$$;
create trigger totp_credentials_are_noted after insert or delete or update of confirmed_at on totp_credentials
  for each row execute function note_second_factor();
create trigger passkeys_are_noted after insert or delete on passkeys for each row execute function note_second_factor();

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

-- Logins whose first factor was right and whose code is missing.
create table mfa_challenges (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the tempToken
  user_id       uuid        not null references users (id) on delete cascade,
  first_factor  text        not null default 'pwd' check (first_factor in ('pwd', 'fed')),
  session_epoch integer     not null, -- the user's when the first factor was right: what ends sessions ends the challenge
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 5),
  ip            text        not null check (char_length(ip) <= 45),          -- where the first factor came from
  user_agent    text        not null check (char_length(user_agent) <= 512)
);
create index mfa_challenges_by_user on mfa_challenges (user_id);
create index mfa_challenges_by_end on mfa_challenges (expires_at);

-- Logins of users whose role requires a second factor, and who have none yet.
create table mfa_enrollment_challenges (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the tempToken
  user_id       uuid        not null references users (id) on delete cascade,
  session_epoch integer     not null, -- the user's when the first factor was right: what ends sessions ends the challenge
  amr           text[]      not null check (cardinality(amr) > 0), -- of the first factor
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 10), -- set-ups and codes
  consumed_at   timestamptz
);
create index mfa_enrollment_challenges_by_user on mfa_enrollment_challenges (user_id);
create index mfa_enrollment_challenges_by_end on mfa_enrollment_challenges (expires_at);

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

-- Proofs of a higher level that sessions are asked for.
create table step_ups (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the token
  user_id       uuid        not null references users (id) on delete cascade,
  session_id    uuid        not null, -- of token-service
  session_epoch integer     not null, -- the user's at the begin: what ends sessions ends the step-up
  acr           smallint    not null check (acr in (1, 2, 3)), -- to prove
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 5),
  consumed_at   timestamptz
);
create index step_ups_by_user on step_ups (user_id);
create index step_ups_by_end on step_ups (expires_at);

-- Browsers in which a login needs no code of the second factor for a time.
create table trusted_devices (
  id            uuid        primary key, -- as its owner sees it
  user_id       uuid        not null references users (id) on delete cascade,
  device_id     uuid        not null, -- in the device token
  secret_hash   bytea       not null check (octet_length(secret_hash) = 32), -- SHA-256 of the secret of the last login
  session_epoch integer     not null, -- the user's at the begin: what ends sessions ends the trust
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  last_used_at  timestamptz not null check (last_used_at >= created_at),
  ip            text        not null check (char_length(ip) <= 45), -- of the last login
  user_agent    text        not null check (char_length(user_agent) <= 512),

  constraint trusted_devices_one_trust unique (user_id, device_id)
);
create index trusted_devices_by_end on trusted_devices (expires_at);

-- Networks from which an account has logged in: tells its owner from a stranger where no device is known. Both digests
-- are HMACs with a key that is not here: an address could be found from a plain one by trying all of them.
create table known_networks (
  digest         bytea       primary key check (octet_length(digest) = 16), -- of the account's address and the network
  network_digest bytea       not null check (octet_length(network_digest) = 16), -- of the network alone
  user_id        uuid        not null references users (id) on delete cascade,
  password_epoch integer     not null, -- the account's at that login: with a new password every network is unknown
  seen_at        timestamptz not null  -- the last login, exact to a day
);
create index known_networks_by_network on known_networks (network_digest, seen_at);
create index known_networks_by_user on known_networks (user_id, seen_at);
create index known_networks_by_age on known_networks (seen_at);

-- Accounts at identity providers that open an account here.
create table external_identities (
  issuer    text        collate "C" not null check (octet_length(issuer) between 1 and 512),
  subject   text        collate "C" not null check (octet_length(subject) between 1 and 255), -- OpenID Connect Core §2
  user_id   uuid        not null references users (id) on delete cascade,
  provider  text        not null check (provider ~ '^[a-z][a-z0-9-]{0,31}$'), -- its name when it was linked
  email     text        collate "C" check (octet_length(email) between 3 and 254), -- canonical, what the provider said then; for its owner's eyes
  linked_at timestamptz not null,

  -- Not the provider's name: another provider under an old name must not open the old one's accounts.
  primary key (issuer, subject),
  constraint external_identities_one_of_each unique (user_id, provider)
);

-- Browsers that are away at a provider. What the browser and the provider have is not here: see oauth-flow-secrets.ts.
-- A use deletes its row: of any number at once, one gets it. The same of the codes.
create table oauth_flows (
  state_hash         bytea       primary key check (octet_length(state_hash) = 32),     -- SHA-256
  browser_hash       bytea       not null check (octet_length(browser_hash) = 32),      -- SHA-256 of what its cookie has
  provider           text        not null check (char_length(provider) between 1 and 32),
  return_to          text        not null check (char_length(return_to) between 1 and 2048),
  code_challenge     text        check (code_challenge ~ '^[A-Za-z0-9_-]{43}$'),        -- null: tokens, no code
  link_user_id       uuid        references users (id) on delete cascade,               -- null: a login
  link_session_epoch integer,                                                           -- the user's when it began
  link_session_id    uuid,                                                              -- in which it began, and with which it ends
  created_at         timestamptz not null,
  expires_at         timestamptz not null check (expires_at > created_at),

  constraint oauth_flows_link_has_epoch check ((link_user_id is null) = (link_session_epoch is null))
);
create index oauth_flows_by_end on oauth_flows (expires_at);
create index oauth_flows_by_user on oauth_flows (link_user_id) where link_user_id is not null;

-- Logins that wait for the exchange of their one-time code. No tokens: the session begins with the exchange.
create table oauth_codes (
  code_hash      bytea       primary key check (octet_length(code_hash) = 32), -- SHA-256
  code_challenge text        not null check (code_challenge ~ '^[A-Za-z0-9_-]{43}$'),
  user_id        uuid        not null references users (id) on delete cascade,
  session_epoch  integer     not null, -- the user's when the provider proved them: what ends sessions ends the code
  auth_time      timestamptz not null,
  expires_at     timestamptz not null
);
create index oauth_codes_by_end on oauth_codes (expires_at);
create index oauth_codes_by_user on oauth_codes (user_id);

-- Security events of providers that ended sessions, or found no account, for as long as their `iat` is accepted.
create table received_events (
  event_hash bytea       primary key check (octet_length(event_hash) = 32), -- SHA-256 of issuer and `jti`
  expires_at timestamptz not null
);
create index received_events_by_end on received_events (expires_at);

-- Approvals of single transactions, and the evidence of those that were used.
create table approvals (
  id               uuid        primary key,
  token_hash       bytea       not null unique check (octet_length(token_hash) = 32), -- SHA-256
  user_id          uuid        not null, -- no foreign key: evidence outlives the account
  session_id       uuid        not null,
  transaction_text text        not null check (octet_length(transaction_text) <= 16384), -- RFC 8785 canonical JSON
  digest           bytea       not null check (digest = sha256(convert_to(transaction_text, 'UTF8'))),
  acr              smallint    not null check (acr between 2 and 3),
  nonce            bytea       not null check (octet_length(nonce) = 32), -- a passkey signs SHA-256(nonce, digest)
  created_at       timestamptz not null,
  expires_at       timestamptz not null check (expires_at > created_at),
  attempts         integer     not null default 0 check (attempts between 0 and 5),
  method           text        check (method ~ '^[a-z_]{1,32}$'), -- what gave it
  given_at         timestamptz check ((given_at is null) = (method is null)),
  used_at          timestamptz check (used_at is null or given_at is not null),
  refused_at       timestamptz, -- by its user
  idempotency_hash bytea       check (octet_length(idempotency_hash) = 32), -- SHA-256 of the key of its use
  -- The evidence of a passkey: what was signed, and the key that verifies it (WebAuthn Level 3 §7.2).
  passkey_id         uuid, -- no foreign key: evidence outlives the passkey
  credential_id      bytea check (octet_length(credential_id) between 16 and 1023),
  public_key         bytea check (octet_length(public_key) between 1 and 1024), -- COSE_Key (RFC 9052 §7)
  authenticator_data bytea check (octet_length(authenticator_data) between 37 and 1024),
  client_data        bytea check (octet_length(client_data) between 1 and 2048), -- JSON, as it was signed
  signature          bytea check (octet_length(signature) between 1 and 1024),
  rp_id              text  check (char_length(rp_id) between 1 and 253),

  constraint approvals_used_or_refused check (used_at is null or refused_at is null),
  constraint approvals_passkey_evidence_is_whole check (
    num_nonnulls(passkey_id, credential_id, public_key, authenticator_data, client_data, signature, rp_id)
      = case when method is not distinct from 'passkey' then 7 else 0 end
  )
);
create index approvals_of_session on approvals (session_id, created_at) where used_at is null;
create index approvals_of_user on approvals (user_id, created_at);
create index approvals_unused_of_user on approvals (user_id, created_at) where used_at is null;
create index approvals_unused_by_end on approvals (expires_at) where used_at is null;
create index approvals_by_use on approvals (used_at) where used_at is not null;

-- Accounts of programs (RFC 6749 §4.4).
create table clients (
  id          uuid        primary key,
  name        text        not null check (char_length(name) between 1 and 100),
  owner_id    uuid        references users (id) on delete set null, -- who answers for it; it lives on without one
  permissions text[]      not null check (cardinality(permissions) between 1 and 100),
  status      text        not null check (status in ('active', 'disabled')),
  created_at  timestamptz not null,
  changed_at  timestamptz not null check (changed_at >= created_at)
);
create index clients_by_owner on clients (owner_id);

-- What proves a client. A revoked one is deleted: the audit log remembers it.
create table client_credentials (
  id           uuid        primary key, -- sid of its tokens; a new one is given when those it had are revoked
  client_id    uuid        not null references clients (id) on delete cascade,
  kind         text        not null check (kind in ('public_key', 'secret', 'api_key')),
  name         text        not null check (char_length(name) <= 100),
  key_id       text        not null check (char_length(key_id) <= 128), -- kid, or an API key's public id
  public_jwk   jsonb,
  secret_hash  bytea       check (octet_length(secret_hash) = 32), -- SHA-256 of 256 random bits
  created_at   timestamptz not null,
  last_used_at timestamptz, -- exact to a minute

  constraint client_credentials_proof check ((kind = 'public_key') = (public_jwk is not null) and (kind = 'public_key') = (secret_hash is null))
);
create index client_credentials_by_client on client_credentials (client_id, created_at, id);
create unique index client_credentials_public_keys on client_credentials (client_id, key_id) where kind = 'public_key';
create unique index client_credentials_api_keys on client_credentials (key_id) where kind = 'api_key';

-- Assertions that were used (RFC 7523 §3, 7), until they have expired. Written after the signature was checked.
create table client_assertions (
  client_id  uuid        not null, -- no foreign key: an insert would lock the client
  jti_hash   bytea       not null check (octet_length(jti_hash) = 32), -- SHA-256
  expires_at timestamptz not null,
  primary key (client_id, jti_hash)
);
create index client_assertions_by_end on client_assertions (expires_at);

-- Marks the public ids of API keys, so that made-up ones cost no look-up. Not a secret that grants anything.
create table api_key_mark (
  only_row boolean primary key default true check (only_row),
  key      bytea   not null check (octet_length(key) = 32)
);
insert into api_key_mark (key) values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- Ends of a user's sessions that token-service has not confirmed yet; each written in the transaction of its cause.
create table session_ends (
  id                uuid        primary key,
  user_id           uuid        not null, -- no foreign key: it outlives the account
  except_session_id uuid,
  reason            text        not null check (reason ~ '^[a-z][a-z_]{0,31}$'),
  created_at        timestamptz not null,
  next_attempt_at   timestamptz not null
);
create index session_ends_by_attempt on session_ends (next_attempt_at);

-- The same of revoked credentials of clients.
create table client_ends (
  id              uuid        primary key,
  credential_ids  uuid[]      not null check (cardinality(credential_ids) between 1 and 20),
  created_at      timestamptz not null,
  next_attempt_at timestamptz not null
);
create index client_ends_due on client_ends (next_attempt_at);

-- Events for the audit log, written in the transaction of their cause and delivered after it.
create table security_events (
  id              uuid        primary key,
  type            text        not null check (type ~ '^[a-z][a-z_]{0,63}$'),
  user_id         uuid        not null, -- no foreign key: it outlives the account
  actor_id        uuid,                 -- who did it, where that is proven
  actor_role      text        check (char_length(actor_role) <= 32),
  session_id      uuid,                 -- the actor's
  person          text,                 -- the operator whose certificate the call was made with: operator:ada
  reason          text        not null default '' check (char_length(reason) <= 200),
  error_code      text        check (char_length(error_code) <= 64), -- of what failed; null: it succeeded
  erased_email    text,                 -- of a deleted account, until the audit log has forgotten who claimed it
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
-- The age of the oldest one is asked for every second.
create index security_events_waiting on security_events (occurred_at) where recorded_at is null;

-- A file of users that operators import. A file is imported once with the same settings.
create table imports (
  id           uuid        primary key,
  file_sha256  bytea       not null check (octet_length(file_sha256) = 32),
  source       text        not null check (source ~ '^[a-z0-9-]{1,32}$'),
  settings     text        not null check (char_length(settings) <= 2048), -- how the file is read
  started_at   timestamptz not null,
  completed_at timestamptz,
  next_row     integer     not null default 1 check (next_row >= 1), -- all rows before it are in import_batches
  imported     integer     not null default 0 check (imported >= 0),

  unique (file_sha256, source, settings)
);

-- What has become of each row. In the transaction that makes the users.
create table import_batches (
  import_id uuid    not null references imports (id) on delete cascade,
  first_row integer not null check (first_row >= 1),
  refusals  text[]  not null check (cardinality(refusals) between 1 and 100), -- of each row; empty: imported
  user_ids  uuid[]  not null check (cardinality(user_ids) = cardinality(array_positions(refusals, ''))), -- of those
  primary key (import_id, first_row)
);

-- All that the service may do, whatever the database grants by default. An extension's relations belong to others.
do $$ begin
  execute (
    select format('revoke all on %s from gatehouse_identity', string_agg(format('%I.%I', schemaname, tablename), ', '))
    from pg_tables where schemaname = current_schema() and tableowner = current_user
  );
end $$;
grant select on api_key_mark to gatehouse_identity;
grant select, insert on import_batches to gatehouse_identity;
grant select, insert, delete on users, former_addresses, released_addresses, mail_outbox, counted_mails, links, totp_credentials,
  recovery_codes, mfa_failures, mfa_guessing, passkeys, passkey_challenges, mfa_challenges, mfa_enrollment_challenges,
  password_change_challenges, step_ups, trusted_devices, known_networks, external_identities, oauth_flows, oauth_codes, received_events, approvals,
  clients, client_credentials, client_assertions, session_ends, client_ends, security_events, imports to gatehouse_identity;
grant update (email, first_name, last_name, role, status, password_hash, must_change_password, password_epoch, session_epoch,
  email_verified, credentials_proven_email, credentials_proven_at, has_second_factor, first_login_at, last_login_at, language,
  time_zone, updated_at) on users to gatehouse_identity;
grant update (until) on released_addresses to gatehouse_identity;
grant update (recipient, data, next_attempt_at, attempts, last_error, sent_at, given_up_at) on mail_outbox to gatehouse_identity;
-- What locks its rows, as clean-up does, must be allowed to change a column.
grant update (created_at) on counted_mails to gatehouse_identity;
grant update (consumed_at) on links to gatehouse_identity;
grant update (secret_encrypted, key_id, created_at, confirmed_at, last_step) on totp_credentials to gatehouse_identity;
grant update (unknown_in_a_row, known_in_a_row, forgiven_at) on mfa_guessing to gatehouse_identity;
grant update (sign_count, is_backed_up, name, last_used_at) on passkeys to gatehouse_identity;
grant update (challenge_hash, user_id, session_epoch, created_at, expires_at) on passkey_challenges to gatehouse_identity;
grant update (attempts) on mfa_challenges to gatehouse_identity;
grant update (attempts, consumed_at) on mfa_enrollment_challenges, password_change_challenges, step_ups to gatehouse_identity;
grant update (secret_hash, last_used_at, ip, user_agent) on trusted_devices to gatehouse_identity;
grant update (user_id, password_epoch, seen_at) on known_networks to gatehouse_identity;
grant update (attempts, method, given_at, used_at, refused_at, idempotency_hash, passkey_id, credential_id, public_key,
  authenticator_data, client_data, signature, rp_id) on approvals to gatehouse_identity;
grant update (name, owner_id, permissions, status, changed_at) on clients to gatehouse_identity;
grant update (id, last_used_at) on client_credentials to gatehouse_identity;
grant update (next_attempt_at) on session_ends, client_ends to gatehouse_identity;
grant update (next_attempt_at, recorded_at, erased_email) on security_events to gatehouse_identity;
grant update (completed_at, next_row, imported) on imports to gatehouse_identity;
