-- Reads one task as a `begin` would, and changes nothing: it fails where that fails.
-- params: id text, worker text
select octet_length(outlast_history(t.history, outlast_line('begun', t.epoch + 9214364837600034816 - 9214364837600034815, $2, null))) as history,
  t.body, t.options, t.checkpoint
from outlast_task t where t.id = $1
