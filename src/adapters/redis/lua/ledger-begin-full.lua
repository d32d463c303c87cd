#!lua flags=allow-oom
-- As `ledger-begin`, also when memory is full: waiting tasks are there already, and where messages come from the same
-- server, beginning them is the only way to get rid of them.
-- keys: root
-- args: worker, run, limit, suspects, run_id, known_generation, queues, budgets, messages, celery_keep_ms, held_keys, started, is_first
-- returns: 'closed' | 'unsettled' | 'open', an answer for each message, what was begun of the messages, what was begun of
--   the waiting tasks, what was too late, milliseconds until the next one is due, epoch and time of
--   what no record knew before
local root = KEYS[1]
local worker, run, limit, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local run_id, known_generation, packed_budgets = ARGV[5], tonumber(ARGV[6]), ARGV[8]
local celery_keep_ms, started, is_first = tonumber(ARGV[10]), ARGV[12], ARGV[13]
-- include: now
-- include: run-id
-- include: ledger-record
-- include: ledger-waiting
-- include: celery-result
-- include: ledger-begin
return begin(cmsgpack.unpack(ARGV[7]), cmsgpack.unpack(ARGV[9]), cmsgpack.unpack(ARGV[11]))
