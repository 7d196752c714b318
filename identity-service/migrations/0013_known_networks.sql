-- Networks from which an account has logged in: what its owner is told from a stranger by where no device is known. Both
-- digests are HMACs with a key that is not here: an address could be found from a plain one by trying all of them.
create table known_networks (
  digest         bytea       primary key check (octet_length(digest) = 16), -- of the account's address and the network
  network_digest bytea       not null check (octet_length(network_digest) = 16), -- of the network alone
  user_id        uuid        not null references users (id) on delete cascade,
  password_epoch integer     not null, -- the account's at that login: with a new password every network is unknown
  seen_at        timestamptz not null  -- the last login, exact to a day
);
create index known_networks_by_network on known_networks (network_digest, seen_at);
create index known_networks_by_user on known_networks (user_id, seen_at);
create index known_networks_by_age on known_networks (seen_at);

revoke all on known_networks from gatehouse_identity;
grant select, insert, delete on known_networks to gatehouse_identity;
grant update (user_id, password_epoch, seen_at) on known_networks to gatehouse_identity;
