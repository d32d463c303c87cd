-- Changes of tables may take as long as they need, on the one session that makes them. They do not wait long for
-- sessions that use the table: whatever comes after them waits behind them.
-- params: none
set session lock_wait_timeout = 1 /*M!100600 , max_statement_time = 0 */
