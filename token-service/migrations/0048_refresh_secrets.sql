-- Authenticates refresh tokens. Keys of the version before have none: their refresh tokens stay signed.
alter table signing_keys
  add column refresh_secret_encrypted bytea,
  add column refresh_secret_key_id text;
