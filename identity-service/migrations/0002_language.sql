-- What the mails of an account are written in. Null: nobody has said.
alter table users
  add column language  text check (language ~ '^[A-Za-z0-9-]{2,35}$'),           -- canonical BCP 47 tag
  add column time_zone text check (time_zone ~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'); -- IANA name
grant update (language, time_zone) on users to gatehouse_identity;
