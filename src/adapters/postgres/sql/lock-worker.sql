-- Holds an open incarnation open until this transaction ends: `condemn` waits for it or passes it over.
-- params: worker text
select id from outlast_worker where id = $1 and state = 'open' for key share
