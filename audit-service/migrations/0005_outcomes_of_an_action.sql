-- "The failures of payments.create", when there are none: with the index of the action alone, every one of its entries was
-- read to find that out. Not for intents, which have no outcome.
create index log_entries_action_outcome_idx on log_entries (action, outcome, occurred_at, position) where outcome <> '';

-- Which actions have which outcomes: without it the planner takes the two for independent, and reads through an index of
-- one of them, or of the time, as if what is looked for came soon. Partitions made later copy it from the parent.
do $$
declare part regclass;
begin
  for part in select 'log_entries'::regclass union all
    select inhrelid::regclass from pg_inherits where inhparent = 'log_entries'::regclass
  loop
    execute format('create statistics %I (mcv) on action, outcome from %s', part || '_action_outcome_stat', part);
  end loop;
end
$$;

-- Months that have passed are not analyzed by themselves any more.
analyze log_entries;
