-- without a transaction
-- Re-encryption reads the secrets of a key in the order of their users, whatever the statistics say of how many are left.
drop index concurrently if exists totp_credentials_by_key_and_user;
create index concurrently totp_credentials_by_key_and_user on totp_credentials (key_id, user_id);
-- The index above serves the version before, too.
drop index concurrently if exists totp_credentials_by_key;
-- Users whose role the access file does not name are counted every minute.
drop index concurrently if exists users_by_role;
create index concurrently users_by_role on users (role);
