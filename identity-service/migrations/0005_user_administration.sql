-- Decides whether a login on an unknown device is news to its owner.
alter table users add column first_login_at timestamptz;

-- Administrators look for the few: the list of all is read by the primary key, which is in the order of time.
create index users_privileged on users (role, id) where role <> 'USER';
create index users_disabled on users (id) where status = 'disabled';

grant update (role, status, first_login_at) on users to gatehouse_identity;
