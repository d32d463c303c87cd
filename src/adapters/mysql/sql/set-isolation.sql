-- Under READ COMMITTED a claim locks the rows it takes and no gaps between them: no sender waits for a relay.
-- params: none
set session transaction isolation level read committed
