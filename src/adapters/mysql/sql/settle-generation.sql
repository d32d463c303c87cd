-- The generation of a ledger: raised by one when it shows another identity than before, never lowered. Assignments run in
-- their order, so the comparison sees what was shown before. Read it in the same transaction.
-- params: node text, shown text, at_least bigint
insert into outlast_generation (node, shown, generation, changed_at) values ($1, $2, $3, utc_timestamp(6))
on duplicate key update
  generation = greatest(generation + if(shown = values(shown), 0, 1), values(generation)),
  shown = values(shown),
  changed_at = values(changed_at)
