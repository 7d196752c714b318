-- An erasure names the address as the account had it; what was claimed is as it was typed.
create index claimed_emails_lower_idx on claimed_emails (lower(address));
drop index claimed_emails_address_idx;
