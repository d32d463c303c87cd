-- How many incarnations are open and within their lease.
-- params: none
select count(*)::text as count from outlast_worker where state = 'open' and deadline >= clock_timestamp()
