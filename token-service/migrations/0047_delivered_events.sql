-- without a transaction
-- Delivered events are looked for every minute, and deleted after a day.
drop index concurrently if exists security_events_done;
create index concurrently security_events_done on security_events (recorded_at)
  where recorded_at is not null and notified_at is not null;
