-- Roles are named in access.yaml, no longer here. A replica of the version before does not read users of other roles.
alter table users drop constraint users_role_check;
alter table users add constraint users_role_name check (role ~ '^[A-Z][A-Z0-9_]{0,31}$') not valid;
