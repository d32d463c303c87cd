-- Whether a step is still marked by this run. If not, the transaction in which it was marked has been rolled back.
-- params: effect_key text, step text, epoch text
select '1' as marked from outlast_effect where effect_key = $1 and step = $2 and epoch = cast($3 as signed)
