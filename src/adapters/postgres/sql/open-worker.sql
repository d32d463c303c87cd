-- Opens an incarnation. A repeat after a lost reply finds its row.
-- params: worker text, process text, host text, pid int, lease_ms int
insert into outlast_worker (id, process, host, pid, lease_ms, deadline)
values ($1, $2, $3, $4, $5::int, clock_timestamp() + $5::int * interval '1 millisecond')
on conflict (id) do nothing
