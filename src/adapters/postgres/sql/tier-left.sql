-- What is still in the ledger in this database: tasks that are not over, dead letters, follow-ups, chords.
-- params: none
select (select count(*) from outlast_task where state in ('waiting', 'refused', 'running'))::text as tasks,
  (select count(*) from outlast_task where state = 'dead')::text as dead,
  (select count(*) from outlast_after)::text as follow_ups,
  (select count(*) from outlast_chord)::text as chords
