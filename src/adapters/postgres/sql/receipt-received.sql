-- Deletes published rows whose task is over.
-- params: rows bigint[]
delete from outlast_outbox where id = any($1::bigint[]) and state = 'sent' returning id
