-- Revoked credentials of which token-service must be told. Written in the transaction of the cause.
create table client_ends (
  id              uuid        primary key,
  credential_ids  uuid[]      not null check (cardinality(credential_ids) between 1 and 20),
  created_at      timestamptz not null,
  next_attempt_at timestamptz not null
);
create index client_ends_due on client_ends (next_attempt_at);

-- Marks the public ids of API keys, so that made-up ones cost no look-up. Not a secret that grants anything.
create table api_key_mark (
  only_row boolean primary key default true check (only_row),
  key      bytea   not null check (octet_length(key) = 32)
);
insert into api_key_mark (key) values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

revoke all on client_ends, api_key_mark from gatehouse_identity;
grant select, insert, delete on client_ends to gatehouse_identity;
grant update (next_attempt_at) on client_ends to gatehouse_identity;
grant select on api_key_mark to gatehouse_identity;
