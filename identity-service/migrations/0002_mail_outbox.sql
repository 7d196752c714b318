-- Mails to be sent, each written in the transaction of its cause; for 30 days what is left of those that are done.
create table mail_outbox (
  id              uuid        primary key, -- the cause's: one mail each, however often it is told
  user_id         uuid        not null,    -- no foreign key: the last mail of an account outlives it
  template        text        not null check (template ~ '^[a-z0-9-]{1,64}$'),
  recipient       text        collate "C" check (octet_length(recipient) between 3 and 254), -- null once done: personal data
  data            jsonb       check (jsonb_typeof(data) = 'object' and octet_length(data::text) <= 8192), -- null once done
  created_at      timestamptz not null,
  next_attempt_at timestamptz not null, -- during an attempt: the end of its lease
  attempts        integer     not null default 0 check (attempts >= 0),
  last_error      text        check (char_length(last_error) <= 64), -- what kind of failure, nothing that a server wrote
  sent_at         timestamptz,
  given_up_at     timestamptz,

  constraint mail_outbox_one_end check (num_nonnulls(sent_at, given_up_at) <= 1),
  constraint mail_outbox_forgets_what_is_done check (
    num_nonnulls(recipient, data) = case num_nonnulls(sent_at, given_up_at) when 0 then 2 else 0 end
  )
);
create index mail_outbox_waiting_by_attempt on mail_outbox (next_attempt_at) where sent_at is null and given_up_at is null;
create index mail_outbox_waiting_by_age on mail_outbox (created_at) where sent_at is null and given_up_at is null;
create index mail_outbox_by_age on mail_outbox (created_at);

revoke all on mail_outbox from gatehouse_identity;
grant select, insert, delete on mail_outbox to gatehouse_identity;
grant update (recipient, data, next_attempt_at, attempts, last_error, sent_at, given_up_at) on mail_outbox to gatehouse_identity;
