-- Browsers in which a login needs no code of the second factor for a time.
create table trusted_devices (
  id            uuid        primary key, -- as its owner sees it
  user_id       uuid        not null references users (id) on delete cascade,
  device_id     uuid        not null, -- in the device token
  secret_hash   bytea       not null check (octet_length(secret_hash) = 32), -- SHA-256 of the secret of the last login
  session_epoch integer     not null, -- the user's at the begin: what ends sessions ends the trust
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  last_used_at  timestamptz not null check (last_used_at >= created_at),
  ip            text        not null check (char_length(ip) <= 45), -- of the last login
  user_agent    text        not null check (char_length(user_agent) <= 512),

  constraint trusted_devices_one_trust unique (user_id, device_id)
);
create index trusted_devices_by_end on trusted_devices (expires_at);

revoke all on trusted_devices from gatehouse_identity;
grant select, insert, delete on trusted_devices to gatehouse_identity;
grant update (secret_hash, last_used_at, ip, user_agent) on trusted_devices to gatehouse_identity;
