-- What changes while tasks wait and run.
-- params: ids text[]
select t.id, t.version, w.process, t.checkpoint, (extract(epoch from t.due) * 1000)::bigint::text as due_ms
from outlast_task t left join outlast_worker w on w.id = t.owner
where t.id = any($1::text[]) and t.state in ('waiting', 'refused', 'running', 'dead')
