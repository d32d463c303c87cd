-- Rows of the outbox by queue, estimated from a share of its pages: a backlog of millions is not read to count it.
-- params: percent float8, total bigint
select queue, round(count(*) * $2::bigint / sum(count(*)) over ())::bigint::text as rows
from outlast_outbox tablesample system ($1::float8) group by queue order by queue collate "C"
