-- Whether this schedule of a configuration is stored with this definition.
-- params: name text, digest text
select name from outlast_schedule where name = $1 and digest = $2 and origin = 'config'
