-- Wrong codes are counted over a day, those from devices that have passed the second factor apart from all others.
-- The version before this one writes none of the new columns and forgets a failure after 15 minutes.
alter table mfa_failures add column on_known_device boolean not null default false;
create index mfa_failures_by_age on mfa_failures (failed_at);

-- How far guessing at an account's codes has got. A row from the first wrong code on.
create table mfa_guessing (
  user_id          uuid        primary key references users (id) on delete cascade,
  unknown_in_a_row integer     not null default 0 check (unknown_in_a_row >= 0), -- wrong codes since the last right one
  known_in_a_row   integer     not null default 0 check (known_in_a_row >= 0),   -- the same on known devices
  forgiven_at      timestamptz -- when a new password last made the wrong codes before it count no more
);

revoke all on mfa_guessing from gatehouse_identity;
grant select, insert, delete on mfa_guessing to gatehouse_identity;
grant update (unknown_in_a_row, known_in_a_row, forgiven_at) on mfa_guessing to gatehouse_identity;
