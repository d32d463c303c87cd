-- Second half: fails with 1305 if no transaction of this session has the mark. The transaction goes on either way.
-- params: none
release savepoint outlast_transaction
