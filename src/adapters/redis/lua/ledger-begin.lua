#!lua
-- Hands out tasks: from the given messages, and up to `limit` that are waiting and due. Refused when memory is full: a
-- message without a record is new work. `ledger-begin-full` is the same without that.
-- keys: root
-- args: worker, run, limit, suspects, known_generation, queues, budgets, messages, celery_keep_ms, held_keys, started, is_first, runnable
-- bound: 1000 messages or 8 MiB of them; 500 waiting tasks or 8 MiB of them, beside 500 that are too late and 1000 that are set aside; of each queue 1000 become due
-- returns: 'closed' | 'unsettled' | 'open', an answer for each message, what was begun of the messages, what was begun of
--   the waiting tasks, what was too late, milliseconds until the next one is due, epoch and time of
--   what had no record before, what was set aside
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known_generation, packed_budgets = tonumber(ARGV[5]), ARGV[7]
local celery_keep_ms, started, is_first, packed_runnable = tonumber(ARGV[9]), ARGV[11], ARGV[12], ARGV[13]
-- include: now
-- include: replication-id
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
-- include: ledger-begin
return begin(cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[10]))
