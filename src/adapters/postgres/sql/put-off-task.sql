-- Makes a waiting task wait for another hour: it can neither be begun nor buried, and others stand behind it.
-- params: id text
update outlast_task t set due = clock_timestamp() + interval '1 hour'
where t.id = $1 and t.state in ('waiting', 'refused')
returning t.id, t.name, t.queue
