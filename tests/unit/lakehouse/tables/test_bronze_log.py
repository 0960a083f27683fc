"""A topic as bronze has it: whole, in order, byte for byte, or refused with the offsets that are
wrong.
"""

import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables import bronze_log
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.lake import Lake
from tests.support.landed_log import BEGAN_MS, append_to_bronze, land

VALUES = [b"zero", b"", None, b"three", b"four"]


def rows(*offsets: int) -> list:  # type: ignore[type-arg]
    return [(COMMANDS_TOPIC, 0, offset, VALUES[offset]) for offset in offsets]


def test_records_come_in_order_with_the_bytes_they_had(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_log, "RECORDS_AT_ONCE", 2)
    land(lake, [("regent.outcomes", 0, 0, b"another topic"), *rows(0, 1)])
    land(lake, rows(2, 3, 4), 1)
    log = BronzeLog(lake, COMMANDS_TOPIC)
    assert (log.end, log.holes) == (5, [])
    assert [(one.offset, one.value, one.key) for one in log.records()] == [
        (n, VALUES[n], None) for n in range(5)
    ]
    assert [one.timestamp_ms for one in log.records()] == [BEGAN_MS + 1_000 * n for n in range(5)]


def test_a_hole_is_named_and_nothing_is_given(lake: Lake) -> None:
    land(lake, [])
    append_to_bronze(lake, rows(1))
    append_to_bronze(lake, rows(4))
    log = BronzeLog(lake, COMMANDS_TOPIC)
    assert log.holes == [(0, 0), (2, 3)]
    with pytest.raises(
        LakehouseError, match=("regent.commands has a hole: offsets 0, 2 to 3 never landed")
    ):
        next(log.records())
    assert [one.offset for one in log.landed()] == [1, 4], "unless whoever asks wants what there is"


def test_a_row_that_landed_twice_counts_once_unless_it_says_something_else(lake: Lake) -> None:
    land(lake, rows(0, 1))
    append_to_bronze(lake, rows(1))
    assert [one.offset for one in BronzeLog(lake, COMMANDS_TOPIC).records()] == [0, 1]
    append_to_bronze(lake, [(COMMANDS_TOPIC, 0, 1, b"other bytes")])
    with pytest.raises(LakehouseError, match="two different records at offset 1"):
        list(BronzeLog(lake, COMMANDS_TOPIC).records())


def test_nothing_landed_is_an_empty_log_and_no_table_is_an_error(lake: Lake) -> None:
    with pytest.raises(NotLanded):
        BronzeLog(lake, COMMANDS_TOPIC)
    land(lake, [])
    log = BronzeLog(lake, COMMANDS_TOPIC)
    assert log.end == 0 and list(log.records()) == []
