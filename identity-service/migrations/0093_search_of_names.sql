-- without a transaction
-- In small letters of every script, without accents and joiners: jose finds José. Hangul is whole again afterwards.
create or replace function folded(written text) returns text language sql immutable strict parallel safe as $$
  select translate(normalize(regexp_replace(normalize(lower(written collate "und-x-icu"), nfd),
    '[\u0300-\u036f\u200c\u200d]', '', 'g'), nfc), 'øłđı', 'oldi')
$$;
-- Each word begins after a space. First and last name stand in either order, with a space between and without.
drop index concurrently if exists users_by_folded_text;
create index concurrently users_by_folded_text on users using gin (folded(
  ' ' || email || ' ' || first_name || ' ' || last_name || ' ' || first_name || ' '
  || replace(last_name || first_name || last_name, ' ', '')) gin_trgm_ops);
-- The version before finds without it, by reading all users, while it is replaced.
drop index concurrently if exists users_by_text;
