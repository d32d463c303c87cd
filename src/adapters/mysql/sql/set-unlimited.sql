-- Changes of tables may take as long as they need, on the one session that makes them.
-- params: none
set session lock_wait_timeout = 60 /*M!100600 , max_statement_time = 0 */
