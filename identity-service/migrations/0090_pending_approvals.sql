-- A user sees the approvals that wait for them.
create index approvals_of_user on approvals (user_id, created_at) where used_at is null;
