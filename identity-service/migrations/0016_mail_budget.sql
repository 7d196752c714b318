-- Mails that a stranger can cause, for a day: by what is left of their recipient, so that deleting the account and
-- making it anew resets nothing.
create table counted_mails (
  id               uuid        primary key,
  recipient_digest bytea       not null check (octet_length(recipient_digest) = 32), -- SHA-256 of the canonical address
  kind             text        not null check (kind in ('stranger', 'reset')),
  user_id          uuid        references users (id) on delete set null, -- the account that it was about
  created_at       timestamptz not null
);
create index counted_mails_by_recipient on counted_mails (recipient_digest, kind, created_at);
create index counted_mails_by_user on counted_mails (user_id);
create index counted_mails_by_age on counted_mails (created_at);

-- Addresses that nobody had proven when their owner deleted the account: not to be registered again so soon.
create table released_addresses (
  email_digest bytea       primary key check (octet_length(email_digest) = 32), -- SHA-256 of the canonical address
  until        timestamptz not null
);
create index released_addresses_by_end on released_addresses (until);

revoke all on counted_mails, released_addresses from gatehouse_identity;
grant select, insert, delete on counted_mails, released_addresses to gatehouse_identity;
grant update (until) on released_addresses to gatehouse_identity;
grant update (user_id) on counted_mails to gatehouse_identity;

-- Accounts that nobody has proven or used: those of them that are old are deleted.
create index users_never_used on users (created_at) where not email_verified and first_login_at is null;
