-- The address whose mailbox was read by whoever held the account's credentials, and when that was shown last. The
-- credentials count as proven while it is the account's address. So an older version, which changes the address and
-- knows nothing of this column, leaves an account that is not proven.
alter table users add column credentials_proven_email text collate "C" check (octet_length(credentials_proven_email) <= 254);
alter table users add column credentials_proven_at timestamptz;
alter table users add constraint users_proof_is_whole
  check ((credentials_proven_email is null) = (credentials_proven_at is null));

grant update (credentials_proven_email, credentials_proven_at) on users to gatehouse_identity;

-- Of a link that gives an address back: whether the credentials were proven with that address when it was left.
alter table links add column are_credentials_proven boolean not null default false;

-- What exists: docs/decisions/0030-proof-of-existing-accounts.md.
update users set credentials_proven_email = email, credentials_proven_at = now()
where email_verified and (
  exists (select from totp_credentials where user_id = users.id and confirmed_at is not null)
  or exists (select from external_identities where user_id = users.id)
  or exists (select from links where user_id = users.id and purpose = 'undo_email_change' and consumed_at is null)
);
update links set are_credentials_proven = true
where purpose = 'undo_email_change' and consumed_at is null;
