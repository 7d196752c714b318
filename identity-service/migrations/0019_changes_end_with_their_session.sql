-- The session in which a change was begun that a mail or a provider is to complete. When that session has ended, so has the
-- change. Null: begun by an older version, or by nobody who was logged in.
alter table links add column session_id uuid;
alter table oauth_flows add column link_session_id uuid;
