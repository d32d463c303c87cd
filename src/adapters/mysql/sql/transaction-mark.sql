-- Marks the caller's transaction: first half of the proof that there is one, for libraries that do not know. Outside of
-- a transaction the server takes the statement and keeps nothing.
-- params: none
savepoint outlast_transaction
