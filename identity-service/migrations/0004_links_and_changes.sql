-- Links of mails. What a mail carries is made from the id with a key that is not here: see links.ts.
create table links (
  id          uuid        primary key,
  token_hash  bytea       not null unique check (octet_length(token_hash) = 32), -- SHA-256
  purpose     text        not null check (purpose in ('verify_email', 'reset_password', 'confirm_email_change', 'undo_email_change')),
  user_id     uuid        not null references users (id) on delete cascade,
  new_email   text        collate "C" check (octet_length(new_email) between 3 and 254), -- what the address becomes
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

revoke all on links from gatehouse_identity;
grant select, insert, delete on links to gatehouse_identity;
grant update (consumed_at) on links to gatehouse_identity;

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

revoke all on session_ends from gatehouse_identity;
grant select, insert, delete on session_ends to gatehouse_identity;
grant update (next_attempt_at) on session_ends to gatehouse_identity;

-- Goes up with each change that ends sessions: a login that began before it must not give one after it.
alter table users add column session_epoch integer not null default 0 check (session_epoch >= 0);

grant update (email, first_name, last_name, email_verified, session_epoch) on users to gatehouse_identity;
grant delete on users to gatehouse_identity;
create index mail_outbox_by_user on mail_outbox (user_id);
