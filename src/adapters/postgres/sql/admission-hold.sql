-- Remembers a permit.
-- params: token text, hold_ms float8
insert into outlast_permit (token, ends_at)
values ($1, clock_timestamp() + $2::float8 * interval '1 millisecond')
on conflict (token) do nothing
