create table users (
  id             uuid        primary key, -- UUIDv7, made by the service
  email          text        collate "C" not null, -- canonical: see canonical-email.ts
  first_name     text        not null check (char_length(first_name) between 1 and 100),
  last_name      text        not null check (char_length(last_name) between 1 and 100),
  role           text        not null check (role in ('USER', 'ADMIN', 'AUDITOR')),
  status         text        not null check (status in ('active', 'disabled')),
  password_hash  text        check (password_hash like '$argon2id$%' and char_length(password_hash) <= 256), -- PHC string; null: no password
  email_verified boolean     not null,
  created_at     timestamptz not null,
  updated_at     timestamptz not null check (updated_at >= created_at),

  constraint users_email_key unique (email),
  -- The service canonicalises; this stops a path that forgot to from making a second account of one mailbox.
  constraint users_email_canonical check (
    octet_length(email) <= 254
    and email ~ '^[^@[:space:][:cntrl:]]+@[a-z0-9-]+([.][a-z0-9-]+)+$'
    and email !~ '[A-Z]'
  )
);

-- Whatever the database grants by default: this is all that the service needs.
revoke all on users from gatehouse_identity;
grant select, insert on users to gatehouse_identity;
-- The rehash at login; who needs to change more grants it with the migration that brings the need.
grant update (password_hash, updated_at) on users to gatehouse_identity;
