-- The key (DPoP) or the certificate that a session's tokens are bound to. Null: bearer tokens.
alter table sessions
  add column jkt text,
  add column x5t_s256 text,
  add column bound_signed_at timestamptz,
  add constraint sessions_binding check (
    num_nonnulls(jkt, x5t_s256) <= 1 and coalesce(jkt, x5t_s256, repeat('A', 43)) ~ '^[A-Za-z0-9_-]{43}$'
  ) not valid,
  -- A replica of the version before notes its signing in last_signed_at alone: it signs nothing for a bound session.
  add constraint sessions_bound_signing check (
    num_nonnulls(jkt, x5t_s256) = 0 or bound_signed_at is not distinct from last_signed_at
  ) not valid;
