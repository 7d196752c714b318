-- Addresses that an account has had: with it goes what the audit log knows of who claimed them.
create table former_addresses (
  user_id uuid not null references users (id) on delete cascade,
  email   text collate "C" not null check (octet_length(email) between 3 and 254), -- canonical
  primary key (user_id, email)
);
revoke all on former_addresses from gatehouse_identity;
grant select, insert, delete on former_addresses to gatehouse_identity;

-- The age of the oldest one is asked for every second.
create index security_events_waiting on security_events (occurred_at) where recorded_at is null;
