-- Marks the caller's transaction: first half of the proof that there is one, for libraries that do not know. A setting
-- of the transaction ends with it, so a statement that commits by itself, or a pool, loses it at once. One that is
-- marked already keeps its mark: another send of the same transaction may depend on it.
-- params: token text
select set_config('outlast.transaction', coalesce(nullif(current_setting('outlast.transaction', true), ''), $1::text), true) as marked
