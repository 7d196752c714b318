-- A user can refuse an approval that was not used.
alter table approvals
  add column refused_at timestamptz,
  add constraint approvals_used_or_refused check (used_at is null or refused_at is null);

grant update (refused_at) on approvals to gatehouse_identity;
