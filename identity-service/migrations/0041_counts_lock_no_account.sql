-- A foreign key locks the account's row, which another transaction may hold that waits for the counts of the same
-- recipient. Nothing reads the column: it stays for replicas of the version before, which write it.
alter table counted_mails drop constraint counted_mails_user_id_fkey;
drop index counted_mails_by_user;
