-- without a transaction
-- Accounts that may be unused, in the order in which they are looked at. The index before it had disabled ones, too, and those of other roles.
drop index concurrently if exists users_unused;
create index concurrently users_unused on users (role, created_at, id)
  where not email_verified and first_login_at is null and status = 'active';
-- The index above serves the version before, too.
drop index concurrently if exists users_never_used;
