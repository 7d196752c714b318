-- What is stored once, by the day on which it occurred: that is the same however often an entry is sent, so a key of
-- one day is unique at all, and a day is forgotten by dropping its table. entry_keys stays for replicas of the version
-- before and for what they have stored; it empties within 31 days, and a later release drops it with both triggers.
-- The producer's name is in the key: no service can take a place in the count of another one.
create table stored_keys (
  position           bigint         not null default nextval('entry_keys_position_seq'),
  day                date           not null,                                -- UTC, by the producer's clock
  producer_name      text           not null,                                -- from the client certificate
  producer_id        uuid           not null,                               -- one life of one producing process
  producer_sequence  bigint         not null check (producer_sequence >= 1),
  id                 uuid           not null,
  received_at        timestamptz(3) not null default date_trunc('milliseconds', now()),
  constraint stored_keys_producer_key unique (producer_id, producer_sequence, producer_name, day),
  constraint stored_keys_id_key unique (id, day)
) partition by range (day);

-- Days long ago or far ahead, by clocks that are wrong or from spools that were away for weeks. Pruned by receipt.
create table stored_keys_default partition of stored_keys default;
create index stored_keys_default_received_idx on stored_keys_default (received_at);

revoke all on stored_keys, stored_keys_default from public;
grant select, insert on stored_keys to gatehouse_audit;
grant select, delete on stored_keys_default to gatehouse_audit;
grant usage on sequence entry_keys_position_seq to gatehouse_audit;

-- Makes the tables of today and of as many days after it; what waits in the default one moves along. For the service,
-- which may not create tables.
create function create_key_partitions(days_ahead integer) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  beginning date;
  name text;
begin
  if days_ahead not between 0 and 31 then raise exception 'days_ahead must be 0 to 31'; end if;
  perform pg_advisory_xact_lock(7031014);
  for ahead in 0..days_ahead loop
    beginning := (now() at time zone 'UTC')::date + ahead;
    name := 'stored_keys_' || to_char(beginning, 'YYYY_MM_DD');
    if to_regclass(name) is not null then continue; end if;
    execute format('create table %I (like stored_keys including defaults including constraints including indexes)', name);
    lock table stored_keys_default in share row exclusive mode;
    execute format('with moved as (delete from stored_keys_default where day = %L returning *)
      insert into %I (position, day, producer_name, producer_id, producer_sequence, id, received_at)
      select position, day, producer_name, producer_id, producer_sequence, id, received_at from moved', beginning, name);
    execute format('alter table stored_keys attach partition %I for values from (%L) to (%L)', name, beginning, beginning + 1);
  end loop;
end
$$;
revoke all on function create_key_partitions(integer) from public;
grant execute on function create_key_partitions(integer) to gatehouse_audit;

-- Forgets days that ended so many days ago. Who stores waits at most 200 ms for it, or it is tried again.
create function drop_key_partitions(kept_days integer) returns integer
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
  name text;
  dropped integer := 0;
begin
  if kept_days < 31 then raise exception 'kept_days must be 31 or more'; end if;
  for name in
    select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'stored_keys'::regclass and c.relname ~ '^stored_keys_\d{4}_\d{2}_\d{2}$'
      and to_date(substr(c.relname, 13), 'YYYY_MM_DD') < (now() at time zone 'UTC')::date - kept_days
    order by c.relname
  loop
    execute format('drop table %I', name);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
revoke all on function drop_key_partitions(integer) from public;
grant execute on function drop_key_partitions(integer) to gatehouse_audit;

-- While both tables are written: what one has, the other does not store again.
create function known_to_stored_keys() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
begin
  if exists (select from stored_keys where (producer_id, producer_sequence) = (new.producer_id, new.producer_sequence)) then
    return null;
  end if;
  if exists (select from stored_keys where id = new.id) then
    raise unique_violation using message = 'an entry has this id', constraint = 'entry_keys_id_key', table = 'entry_keys';
  end if;
  return new;
end
$$;
create trigger known_to_stored_keys before insert on entry_keys for each row execute function known_to_stored_keys();

create function known_to_entry_keys() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
begin
  if exists (select from entry_keys where (producer_id, producer_sequence) = (new.producer_id, new.producer_sequence)) then
    return null;
  end if;
  if exists (select from entry_keys where id = new.id) then
    raise unique_violation using message = 'an entry has this id', constraint = 'stored_keys_id_key', table = 'stored_keys';
  end if;
  return new;
end
$$;
create trigger known_to_entry_keys before insert on stored_keys for each row execute function known_to_entry_keys();
revoke all on function known_to_stored_keys(), known_to_entry_keys() from public;

-- As before, with the ids of both tables: for what a replica of a version before 0002 stores.
create or replace function carry_entries_over() returns trigger language plpgsql as $$
begin
  with source as materialized (
    select e.*,
      case when exists (select from entry_keys as k where k.id = e.id)
        or exists (select from stored_keys as k where k.id = e.id) then gen_random_uuid() else e.id end as free_id,
      decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex') as salt
    from new_entries as e
    where not exists (
      select from entry_keys as k where (k.producer_id, k.producer_sequence) = (e.producer_id, e.producer_sequence)
    )
    order by e.position
  ), keys as (
    insert into entry_keys (producer_id, producer_sequence, id, received_at)
    select producer_id, producer_sequence, free_id, date_trunc('milliseconds', received_at) from source
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
  ), emails as (
    insert into claimed_emails (position, received_at, salt, address)
    select k.position, k.received_at, s.salt, s.claimed_email
    from keys as k join source as s using (producer_id, producer_sequence)
    where s.claimed_email <> ''
  ), opened as (
    insert into open_intents (call_id, producer_id, position, received_at)
    select s.call_id, k.producer_id, k.position, k.received_at
    from keys as k join source as s using (producer_id, producer_sequence)
    where s.kind = 'intent' and s.call_id <> ''
      and not exists (select from source as o where o.kind = 'outcome' and o.call_id = s.call_id)
    on conflict (call_id) do nothing
  )
  delete from open_intents where call_id in (select call_id from source where kind = 'outcome');
  return null;
end
$$;

select create_key_partitions(3);
