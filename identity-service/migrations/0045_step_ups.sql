-- Proofs that a session still lacks for a higher or a fresh level of assurance.
create table step_ups (
  token_hash    bytea       primary key check (octet_length(token_hash) = 32), -- SHA-256 of the token
  user_id       uuid        not null references users (id) on delete cascade,
  session_id    uuid        not null, -- of token-service
  session_epoch integer     not null, -- the user's at the begin: what ends sessions ends the step-up
  acr           smallint    not null check (acr in (1, 2, 3)), -- to prove
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  attempts      integer     not null default 0 check (attempts between 0 and 5),
  consumed_at   timestamptz
);
create index step_ups_by_user on step_ups (user_id);
create index step_ups_by_end on step_ups (expires_at);

revoke all on step_ups from gatehouse_identity;
grant select, insert, delete on step_ups to gatehouse_identity;
grant update (attempts, consumed_at) on step_ups to gatehouse_identity;
