-- Deletes entries that were carried out.
-- params: keys text[]
delete from outlast_after where key = any($1::text[])
