-- The address of a deleted account, until the audit log has forgotten who claimed it. Null otherwise.
alter table security_events add column erased_email text;
grant update (erased_email) on security_events to gatehouse_identity;
