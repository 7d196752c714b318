-- The version before knows no refusals. Its update of a refused approval changes nothing, so that it answers
-- `approval_required`; the constraint alone would make it an internal error.
create function keep_refused_approval() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
create trigger refused_approvals_stay before update on approvals
  for each row when (old.refused_at is not null) execute function keep_refused_approval();
