-- without a transaction
-- The age of the oldest one is asked for every few seconds.
drop index concurrently if exists security_events_waiting;
create index concurrently security_events_waiting on security_events (occurred_at)
  where recorded_at is null or notified_at is null;
