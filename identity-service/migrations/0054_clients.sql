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

revoke all on clients, client_credentials, client_assertions from gatehouse_identity;
grant select, insert, delete on clients, client_credentials, client_assertions to gatehouse_identity;
grant update (name, owner_id, permissions, status, changed_at) on clients to gatehouse_identity;
grant update (id, last_used_at) on client_credentials to gatehouse_identity;
