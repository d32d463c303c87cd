-- params: none
select name from outlast_queue order by name collate "C"
