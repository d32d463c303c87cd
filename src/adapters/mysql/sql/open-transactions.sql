-- While a session waits for a lock: the open transactions of others, oldest first. A change of a table waits for those that
-- have used it; which ones these are is not known on every server. Needs the privilege PROCESS.
-- params: own bigint
select concat('thread ', t.trx_mysql_thread_id, ' (transaction open for ',
  timestampdiff(second, t.trx_started, now()), ' s): ', left(coalesce(t.trx_query, p.info, 'idle'), 100)) as blocker
from information_schema.innodb_trx t left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
where t.trx_mysql_thread_id <> $1
  and exists (select 1 from information_schema.processlist o where o.id = $1 and o.state like 'Waiting for%lock')
order by t.trx_started limit 5
