-- What our own sessions need beside their isolation level. Each kind of server executes only the comment that is written
-- for it: the names of the limits differ. A statement of ours never takes seconds, and a stopped process must not hold
-- rows for ever; MySQL knows no limit for idle transactions, only one for idle sessions.
-- params: none
set session autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
  innodb_lock_wait_timeout = 10, lock_wait_timeout = 30
  /*!80001 , max_execution_time = 30000, wait_timeout = 300 */
  /*M!100600 , max_statement_time = 30, idle_transaction_timeout = 10 */
