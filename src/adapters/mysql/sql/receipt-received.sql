-- Deletes published rows whose task is over.
-- params: rows bigint list
delete from outlast_outbox where id in ($1) and state = 'sent'
