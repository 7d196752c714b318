-- What others must be told of, written in the transaction of its cause and delivered after it. A row is done when
-- both have taken it.
create table security_events (
  id              uuid        primary key,
  type            text        not null check (type in ('refresh_reuse', 'signing_key_rotated', 'signing_key_revoked')),
  user_id         uuid,
  session_id      uuid,
  key_id          text,
  reason          text        not null default '',
  ip              text        not null default '',
  user_agent      text        not null default '',
  request_id      text        not null default '',
  trace_id        text        not null default '',
  occurred_at     timestamptz not null,
  attempts        integer     not null default 0,
  next_attempt_at timestamptz not null,
  recorded_at     timestamptz, -- by audit-service
  notified_at     timestamptz, -- by identity-service; also set when there is nobody to notify
  check (type <> 'refresh_reuse' or (user_id is not null and session_id is not null))
);
create index security_events_due on security_events (next_attempt_at) where recorded_at is null or notified_at is null;

grant select, insert, update, delete on security_events to gatehouse_token;
