-- Brings the entries from before 0002 into the log. Replicas of the version before go on storing meanwhile: since 0002
-- a trigger brings theirs over, and what both bring is taken once.
do $$
declare month date;
begin
  for month in
    select generate_series(
      date_trunc('month', min(received_at) at time zone 'UTC'), date_trunc('month', now() at time zone 'UTC'), '1 month'
    )::date from entries
  loop
    perform create_log_partition(month);
  end loop;
end
$$;

with source as materialized (
  select e.*, decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex') as salt
  from entries as e
  where not exists (
    select from entry_keys as k where (k.producer_id, k.producer_sequence) = (e.producer_id, e.producer_sequence)
  )
  order by e.position
), keys as (
  insert into entry_keys (producer_id, producer_sequence, id, received_at)
  select producer_id, producer_sequence, id, date_trunc('milliseconds', received_at) from source
  on conflict (producer_id, producer_sequence) do nothing
  returning position, producer_id, producer_sequence, id, received_at
), stored as (
  insert into log_entries
  select k.position, k.received_at, k.id, k.producer_id, k.producer_sequence, s.producer_name,
    date_trunc('milliseconds', s.occurred_at), s.kind, s.call_id, s.actor_user_id, s.actor_role, s.actor_session_id,
    case when s.claimed_email = '' then ''
      else encode(sha256(s.salt || convert_to(s.claimed_email, 'UTF8')), 'hex') end,
    s.client_ip, s.user_agent, s.method, s.route, s.resource, s.action, s.request_id, s.trace_id, s.outcome,
    s.error_code, s.reason, s.http_status, s.latency_us
  from keys as k join source as s using (producer_id, producer_sequence)
)
insert into claimed_emails (position, received_at, salt, address)
select k.position, k.received_at, s.salt, s.claimed_email
from keys as k join source as s using (producer_id, producer_sequence)
where s.claimed_email <> '';

insert into open_intents (call_id, producer_id, position, received_at)
select i.call_id, i.producer_id, i.position, i.received_at
from log_entries as i
where i.kind = 'intent' and i.call_id <> ''
  and not exists (select from log_entries as o where o.kind = 'outcome' and o.call_id = i.call_id)
on conflict (call_id) do nothing;

analyze log_entries;
