-- Logins by the hour, for charts: counted from the log in the order of its numbers, each entry once. Derived from the log, and not proven.
create table login_counts (
  hour    timestamptz  not null,                                              -- in which they occurred
  kind    text         not null check (kind in ('login', 'failure', 'refusal')),
  reason  text         not null,                                              -- of a refusal
  count   bigint       not null check (count > 0),
  primary key (hour, kind, reason)
);

-- Up to which number: one row. Whoever counts locks it, and moves it with what was counted.
create table login_count_progress (
  is_only   boolean  primary key default true check (is_only),
  sequence  bigint   not null
);
insert into login_count_progress (sequence) values (0);

revoke all on login_counts, login_count_progress from public;
grant select, insert, update, delete on login_counts to gatehouse_audit;
grant select, update on login_count_progress to gatehouse_audit;
