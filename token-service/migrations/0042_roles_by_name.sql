-- Roles are named in access.yaml, no longer here. Replicas of the version before never write another name, and refuse one.
alter table sessions drop constraint sessions_role_check;
alter table sessions add constraint sessions_role_name check (role ~ '^[A-Z][A-Z0-9_]{0,31}$') not valid;
