-- Accounts from before first logins were kept may have been used: nothing tells. They count as used, because accounts that
-- never were are deleted.
update users set first_login_at = created_at
where first_login_at is null
  and created_at < (select ran_at from schema_migrations where name = '0005_user_administration.sql');
