-- What an operator ends is told to the audit log like everything else that token-service does on its own.
alter table security_events drop constraint security_events_type_check;
alter table security_events add constraint security_events_type_check check (type in
  ('refresh_reuse', 'signing_key_rotated', 'signing_key_revoked', 'session_revoked', 'all_sessions_revoked'));
