-- breaking: no
-- Under whose name the effects of an idempotency key are kept: that of the task which took the key when it was new, also
-- for those who took its place. Null in rows of older processes: the holder's own.
alter table outlast_idempotency add column origin text;
-- How long the origin is remembered when the holder ends without a result; null: not at all.
alter table outlast_idempotency add column ttl_ms bigint;
-- The run that freed it, as `task@epoch`. While that is the holder the key is anybody's.
alter table outlast_idempotency add column freed_by text;
