-- The payloads of claimed rows that are too long to come with the others, if the rows are still ours.
-- params: token text, rows bigint[]
select o.id::text as row, '\x5b'::bytea || o.args || '\x2c'::bytea || o.kwargs || '\x2c'::bytea || o.embed || '\x5d'::bytea as body
from outlast_outbox o where o.id = any($2::bigint[]) and o.claim_token = $1
