-- Locks a schedule as it was seen. No row: it has changed since, or another process is changing it now; both mean that there is
-- nothing to do here. The lock ends with the transaction, which the server ends when its process is silent.
-- params: name text, version text
select 1 as locked from outlast_schedule where name = $1 and version = $2 for update skip locked
