-- params: queue text
delete from outlast_queue where name = $1 returning name
