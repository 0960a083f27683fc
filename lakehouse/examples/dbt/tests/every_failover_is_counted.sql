-- Fails when the model counts other failovers than the lake has.
select of_the_model, of_the_lake
from
    (select coalesce(sum(failovers), 0) as of_the_model from {{ ref('cost_of_failovers') }}),
    (select count(*) as of_the_lake from {{ source('gold', 'failovers') }})
where of_the_model <> of_the_lake
