-- Marks the caller's transaction: first half of the proof that there is one, for libraries that do not know. A setting
-- of the transaction ends with it, so a statement that commits by itself, or a pool, loses it at once.
-- params: token text
select set_config('outlast.transaction', $1::text, true) as marked
