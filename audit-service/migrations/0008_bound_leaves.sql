-- `leaves` is to become the first of many partitions (decision 0054), in three steps that stop nobody for long. First: its numbers
-- end below a bound, a multiple of 2^28 with room for 2^27 more. Not compared with what is there yet, which would take long.
do $$
declare
  width constant bigint := 268435456;
  bound bigint;
begin
  select ((coalesce(max(sequence), 0) + width / 2) / width + 1) * width into bound from leaves;
  execute format('alter table leaves add constraint leaves_bound_check check (sequence < %L::bigint) not valid', bound);
end
$$;
