"""Silver tables brought up from bronze, where the log no longer holds what they lack.

Without a checkpoint a query begins at the log's first record, and so does one that retention has
overtaken. What the log has dropped by then is in bronze and nowhere else: it is made from there, so
that a checkpoint may go at any time.
Responsible for saying which stretches of bronze are to be read. Refuses to append.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakehouse.landing import batch_reading
from lakehouse.landing.batches import BATCH_COLUMNS
from lakehouse.landing.finished import Finished
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake

RECORDS_AT_ONCE = 2_000
"""Less where they are large: a piece has the bytes of a piece of a micro-batch."""
_AS_IN_BRONZE = {"timestampType": "timestamp_type"}

Stretches = Mapping[Partition, tuple[int, int]]
"""First offset, and the one behind the last."""


def unknown_stretches(begins: Mapping[Partition, int], finished: Finished) -> Stretches:
    """What silver may lack and the log does not hold: from where a query that makes silver tables
    of a partition is, to where the log begins.

    `begins`: the first offset that the log still holds.
    """
    found = {
        place: (finished.in_silver(place) + 1, first) for place, first in sorted(begins.items())
    }
    return {place: (start, end) for place, (start, end) in found.items() if start < end}


def batches_of_bronze(lake: Lake, stretches: Stretches) -> Iterator[pa.Table]:
    """The records of these offsets, as a query would give them, in log order."""
    if not stretches:
        return
    bronze = BronzeFiles(lake)
    # The topic is in the names of bronze's folders.
    columns = [_AS_IN_BRONZE.get(name, name) for name in BATCH_COLUMNS[1:]]
    for place, (start, first) in stretches.items():
        there = bronze.offsets.get(place)
        if there is None:
            continue
        begin, end = max(start, int(there[0])), min(first, int(there[-1]) + 1)
        offsets, sizes = bronze.sizes(place, begin, end, batch_reading.CONTENT)
        for first_at, end_at in batch_reading.cuts(
            sizes, batch_reading.PIECE_BYTES, RECORDS_AT_ONCE
        ):
            if first_at < end_at:
                last = int(offsets[end_at - 1])
                rows = bronze.rows(place, int(offsets[first_at]), last + 1, columns)
                topic = pa.array([place[0]] * rows.num_rows, pa.string())
                rows = rows.rename_columns(list(BATCH_COLUMNS[1:]))
                yield rows.add_column(0, BATCH_COLUMNS[0], topic)
