-- A person may have no last name: it is empty. The version before writes what this takes, too.
alter table users drop constraint users_last_name_check;
alter table users add constraint users_last_name_length check (char_length(last_name) <= 100) not valid;
