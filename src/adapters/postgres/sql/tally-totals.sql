-- What happened to tasks since the beginning, by name and queue.
-- params: none
select name, queue, figure, sum(count)::text as count
from (select name, queue, figure, count from outlast_tally union all select name, queue, figure, count from outlast_tally_sum) c
group by name, queue, figure
