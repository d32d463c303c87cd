-- The generation that was just settled.
-- params: node text
select generation from outlast_generation where node = $1
