-- The generation of a ledger: raised by one when it shows another identity than before, never lowered.
-- params: node text, shown text, at_least bigint
insert into outlast_generation as g (node, shown, generation) values ($1, $2, $3::bigint)
on conflict (node) do update set
  generation = greatest(g.generation + case when g.shown = excluded.shown then 0 else 1 end, excluded.generation),
  shown = excluded.shown,
  changed_at = clock_timestamp()
returning generation::text as generation
