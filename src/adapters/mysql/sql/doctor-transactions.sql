-- Transactions that have been open for too long: rows that they may still read cannot be purged.
-- params: age_ms bigint
select trx_mysql_thread_id as id, timestampdiff(microsecond, trx_started, now(6)) div 1000 as age_ms
from information_schema.innodb_trx where trx_started < now(6) - interval $1 * 1000 microsecond order by trx_started
