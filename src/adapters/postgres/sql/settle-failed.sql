-- Gives failed rows their backoff, if they are still ours. The history gets the error, as JSON text, with the
-- database's time.
-- params: token text, rows bigint[], errors text[], delays_ms bigint[], records bytea[]
with item as (select * from unnest($2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) as i(id, error, delay_ms, record))
update outlast_outbox o
set state = 'pending', claim_token = null, claimed_by = null, claimed_until = null, retries = least(o.retries, 32766) + 1,
  last_error = i.error, error_history = outlast_history(o.error_history, outlast_line('failed', 0, null, i.record)),
  available_at = clock_timestamp() + i.delay_ms * interval '1 millisecond', updated_at = clock_timestamp()
from item i where o.id = i.id and o.claim_token = $1 and o.state = 'claimed'
returning o.id::text as row
