-- Writes down chords whose headers are sent, so that they are seen to be open before their first part has come. One that
-- has parts already was written down by them, or is complete.
-- params: chords text
insert into outlast_chord (group_id, since, size, body)
select c.group_id, clock_timestamp(), c.size, c.body
from json_to_recordset($1::json) as c (group_id text, size integer, body text)
where not exists (select 1 from outlast_chord_part p where p.group_id = c.group_id)
-- In one order: two who send the same chords wait for each other, and never both.
order by c.group_id
on conflict (group_id) do nothing
