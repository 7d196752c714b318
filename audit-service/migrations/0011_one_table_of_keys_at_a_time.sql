-- While both tables of keys are written: neither trigger saw what the other table was about to get, so an entry that was under way to a
-- replica of this version and of the one before, at the same moment, was stored twice. Now one of them waits for the other's transaction,
-- and then sees its key. Locked is the producer, of which a batch has few, not the entry.
create or replace function known_to_stored_keys() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtextextended(new.producer_id::text, 7031016));
  if exists (select from stored_keys where (producer_id, producer_sequence) = (new.producer_id, new.producer_sequence)) then
    return null;
  end if;
  if exists (select from stored_keys where id = new.id) then
    raise unique_violation using message = 'an entry has this id', constraint = 'entry_keys_id_key', table = 'entry_keys';
  end if;
  return new;
end
$$;

create or replace function known_to_entry_keys() returns trigger language plpgsql
security definer set search_path = public, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtextextended(new.producer_id::text, 7031016));
  if exists (select from entry_keys where (producer_id, producer_sequence) = (new.producer_id, new.producer_sequence)) then
    return null;
  end if;
  if exists (select from entry_keys where id = new.id) then
    raise unique_violation using message = 'an entry has this id', constraint = 'stored_keys_id_key', table = 'stored_keys';
  end if;
  return new;
end
$$;
