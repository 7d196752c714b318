-- Hashes of other systems too: identity-service/passwords/foreign-hash.ts says which. The first login replaces them.
alter table users drop constraint users_password_hash_check;
alter table users add constraint users_password_hash_form check (
  password_hash ~ '^[$](argon2(id|i|d)|pbkdf2-sha(1|256|512)|scrypt|2[aby])[$]' and char_length(password_hash) <= 256
) not valid;

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

revoke all on imports, import_batches from gatehouse_identity;
grant select, insert, delete on imports to gatehouse_identity;
grant update (completed_at, next_row, imported) on imports to gatehouse_identity;
grant select, insert on import_batches to gatehouse_identity;
