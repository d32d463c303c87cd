-- Second half: sees the mark only in the same session and the same open transaction.
-- params: token text
select case when current_setting('outlast.transaction', true) = $1::text then 'yes' else 'no' end as is_open
