-- The evidence of an approval that a passkey gave: what was signed, and the key that verifies it (WebAuthn Level 3 §7.2).
alter table approvals
  add column passkey_id         uuid, -- no foreign key: evidence outlives the passkey
  add column credential_id      bytea check (octet_length(credential_id) between 16 and 1023),
  add column public_key         bytea check (octet_length(public_key) between 1 and 1024), -- COSE_Key (RFC 9052 §7)
  add column authenticator_data bytea check (octet_length(authenticator_data) between 37 and 1024),
  add column client_data        bytea check (octet_length(client_data) between 1 and 2048), -- JSON, as it was signed
  add column signature          bytea check (octet_length(signature) between 1 and 1024),
  add column rp_id              text  check (char_length(rp_id) between 1 and 253),
  add constraint approvals_passkey_evidence_is_whole check (
    num_nonnulls(passkey_id, credential_id, public_key, authenticator_data, client_data, signature, rp_id)
      = case when method is not distinct from 'passkey' then 7 else 0 end
  );

grant update (passkey_id, credential_id, public_key, authenticator_data, client_data, signature, rp_id)
  on approvals to gatehouse_identity;
