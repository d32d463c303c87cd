-- Which of these schedules of a configuration are stored with these definitions.
-- params: names text[], digests text[]
select s.name from outlast_schedule s
join unnest($1::text[], $2::text[]) as own (name, digest) on s.name = own.name and s.digest = own.digest
where s.origin = 'config'
