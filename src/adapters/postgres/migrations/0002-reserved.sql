-- breaking: no
-- Keeps the number: another branch has this migration.
select 1;
