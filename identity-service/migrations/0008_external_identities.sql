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

revoke all on external_identities from gatehouse_identity;
grant select, insert, delete on external_identities to gatehouse_identity;

-- Browsers that are away at a provider. What the browser and the provider have is not here: see oauth-flow-secrets.ts.
create table oauth_flows (
  state_hash         bytea       primary key check (octet_length(state_hash) = 32),     -- SHA-256
  browser_hash       bytea       not null check (octet_length(browser_hash) = 32),      -- SHA-256 of what its cookie has
  provider           text        not null check (char_length(provider) between 1 and 32),
  return_to          text        not null check (char_length(return_to) between 1 and 2048),
  code_challenge     text        check (code_challenge ~ '^[A-Za-z0-9_-]{43}$'),        -- null: tokens, no code
  link_user_id       uuid        references users (id) on delete cascade,               -- null: a login
  link_session_epoch integer,                                                           -- the user's when it began
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

revoke all on oauth_flows, oauth_codes from gatehouse_identity;
-- A use deletes its row: of any number at once, one gets it.
grant select, insert, delete on oauth_flows, oauth_codes to gatehouse_identity;

-- How the login began that waits for its code. The version before this one knows passwords only.
alter table mfa_challenges add column first_factor text not null default 'pwd' check (first_factor in ('pwd', 'fed'));
