-- Links that take back a new second factor or a new login at a provider.
alter table links drop constraint links_purpose_check;
alter table links add constraint links_purpose_check check (
  purpose in ('verify_email', 'reset_password', 'confirm_email_change', 'undo_email_change', 'undo_access_change')
);
