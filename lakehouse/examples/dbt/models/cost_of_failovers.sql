-- What failovers cost the clients of each broker set, by day and cause.
select
    broker_name,
    cast(at_time as date) as day,
    cause,
    count(*) as failovers,
    count(unavailable_ms) as measured,
    sum(unavailable_ms) as unavailable_ms,
    max(unavailable_ms) as longest_ms,
    sum(truncated_bytes) as truncated_bytes
from {{ source('gold', 'failovers') }}
group by all
