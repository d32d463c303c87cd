-- Records chords whose headers are sent, so that they are known to be open before their first part arrives. A chord with
-- parts was recorded by them already, or is complete. With a proof, only in the transaction that has it; see enqueue-many.sql.
-- params: chords text, proof text
insert into outlast_chord (group_id, since, size, body)
select c.group_id, clock_timestamp(), c.size, c.body
from json_to_recordset($1::json) as c (group_id text, size integer, body text)
where not exists (select 1 from outlast_chord_part p where p.group_id = c.group_id)
  and ($2::text is null or current_setting('outlast.transaction', true) = $2::text)
-- In one order, to avoid deadlocks between two sessions that send the same chords.
order by c.group_id
on conflict (group_id) do nothing
