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
  idempotency_hash bytea       check (octet_length(idempotency_hash) = 32) -- SHA-256 of the key of its use
);
create index approvals_of_session on approvals (session_id, created_at) where used_at is null;
create index approvals_unused_by_end on approvals (expires_at) where used_at is null;
create index approvals_by_use on approvals (used_at) where used_at is not null;

revoke all on approvals from gatehouse_identity;
grant select, insert, delete on approvals to gatehouse_identity;
grant update (attempts, method, given_at, used_at, idempotency_hash) on approvals to gatehouse_identity;
