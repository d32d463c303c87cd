-- breaking: no
-- How a worker ended, as its supervisor or a reaper knows it: a line for the history of each task that it was running.
alter table outlast_worker add column death text;
