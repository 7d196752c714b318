-- Logins of users whose role requires a second factor, and who have none yet.
create table mfa_enrollment_challenges (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the tempToken
  user_id       uuid        not null references users (id) on delete cascade,
  session_epoch integer     not null, -- the user's when the first factor was right: what ends sessions ends the challenge
  amr           text[]      not null check (cardinality(amr) > 0), -- of the first factor
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 10), -- set-ups and codes
  consumed_at   timestamptz
);
create index mfa_enrollment_challenges_by_user on mfa_enrollment_challenges (user_id);
create index mfa_enrollment_challenges_by_end on mfa_enrollment_challenges (expires_at);

revoke all on mfa_enrollment_challenges from gatehouse_identity;
grant select, insert, delete on mfa_enrollment_challenges to gatehouse_identity;
grant update (attempts, consumed_at) on mfa_enrollment_challenges to gatehouse_identity;
