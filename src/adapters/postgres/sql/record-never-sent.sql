-- Records how tasks ended that are never sent, because the task `of_id` ended without a result. One with a record was sent after
-- all, and its own end counts.
-- params: ids text, of_id text, ending text, error bytea, keep_ms bigint
insert into outlast_never_sent as n (task_id, of_id, ending, error, keep_until)
select i.id, $2::text, $3::text, $4::bytea, clock_timestamp() + $5::bigint * interval '1 millisecond'
from (select distinct id from json_array_elements_text($1::json) as e (id)) i
where not exists (select 1 from outlast_task t where t.id = i.id)
-- In one order, to avoid deadlocks between two sessions that tell of the same steps.
order by i.id
on conflict (task_id) do update
set of_id = excluded.of_id, ending = excluded.ending, error = excluded.error, keep_until = excluded.keep_until
