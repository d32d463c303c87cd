-- Settings of our own sessions besides the isolation level, whatever the server or `init_connect` has set. Each kind of
-- server executes only the comment that is written for it: the names of the limits differ. A statement of ours never
-- takes seconds, and a stopped process must not hold rows for ever; MySQL has no limit for idle transactions, only one
-- for idle sessions.
-- params: none
set session autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
  character_set_client = utf8mb4, character_set_results = utf8mb4, collation_connection = utf8mb4_bin,
  sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_auto_is_null = 0,
  innodb_lock_wait_timeout = 10, lock_wait_timeout = 30
  /*!80001 , max_execution_time = 30000, wait_timeout = 300 */
  /*M!100600 , max_statement_time = 30, idle_transaction_timeout = 10 */
