-- Asks one incarnation to end; it finds this at its next look. No row: none of this name lives.
-- params: worker text
update outlast_worker set draining = true
where id = $1 and state = 'open' and deadline >= clock_timestamp() returning id
