-- A random mark of each entry of the revocation log. A reader names the number and the mark of the last entry that it
-- read: a log that lost entries in a fail-over, and gave their numbers to others since, has other marks there. Entries of
-- before have none and are found by their numbers alone.
alter table revocations add column tip uuid;
alter table revocations alter column tip set default gen_random_uuid();

-- When a token of the session was last signed, by the database's clock. A repeated refresh signs too, and moves nothing
-- else. Null: not since this column exists.
alter table sessions add column last_signed_at timestamptz;
