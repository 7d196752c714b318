-- How long the session may rest between refreshes, of sessions whose role says so. Null: as the service is set.
-- A replica of the version before extends such a session as it is set itself.
alter table sessions add column idle_s integer check (idle_s > 0);
