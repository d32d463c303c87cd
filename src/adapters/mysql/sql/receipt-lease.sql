-- Other relays find the rows that this transaction has locked again when the lease is over.
-- params: rows bigint list, lease_ms bigint
update outlast_outbox set available_at = utc_timestamp(6) + interval $2 * 1000 microsecond where id in ($1)
