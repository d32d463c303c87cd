-- Ends a waiting task that no worker can begin as a dead letter. Nothing of it is read: that may be what fails.
-- params: id text, error bytea
update outlast_task t set
  state = 'dead', ending = 'dead', ended_at = clock_timestamp(), reason = 'ERR_UNDECODABLE', error = $2, refused_at = null, refused_by = null,
  version = least(t.version, 2147483646) + 1
where t.id = $1 and t.state in ('waiting', 'refused')
returning t.id, t.name, t.queue
