"""Records with times that no clock has: none of them ends gold, or a question, for ever."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from events.broker_events import (
    BrokerEventHeader,
    EpochAppended,
    FirstMessageAcknowledged,
    LogTruncated,
)
from events.codec import decode, encode
from events.topics import OUTCOMES_TOPIC
from lakehouse.gold.specs import FAILOVERS
from lakehouse.sql import query as sql
from lakehouse.tables.delta import append_rows, count_rows, ensure_table, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME, CLOCK_MS_MAX, DECISIONS, UNREADABLE
from tests.support.control_history import CLUSTER, NAME
from tests.support.landed_log import (
    BEGAN_MS,
    Record,
    command_records,
    event_records,
    land,
    outcome_records,
)
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, ELECTED = failed_over()
SET = PAST.folder.state.sets[NAME]
LONG_MAX = 2**63 - 1
EPOCHS = BY_NAME["silver/epoch_appended"]
ACKNOWLEDGED = BY_NAME["silver/first_message_acknowledged"]
TRUNCATED = BY_NAME["silver/log_truncated"]


def head(number: int, at_ms: int) -> BrokerEventHeader:
    return BrokerEventHeader(
        bytes([number] * 16), CLUSTER, NAME, SET.master_broker_id or 1, "i", at_ms, number
    )


def events(at_ms: int, stored_ms: int) -> list[Record]:
    """The new master's epoch, with the last message before it; its first acknowledged message."""
    epoch = SET.master_epoch
    return event_records(
        [
            encode(EpochAppended(head(1, BEGAN_MS), epoch, 0, stored_ms)),
            encode(FirstMessageAcknowledged(head(2, at_ms), epoch, 1)),
        ]
    )


def log_with(events_of_brokers: list[Record]) -> list[Record]:
    return [*command_records(PAST.records), *outcome_records(PAST.records), *events_of_brokers]


def told(lake: Lake) -> list[dict[str, Any]]:
    """By the gold job and by a question that folds for the moment."""
    query = "SELECT new_epoch, unavailable_ms FROM gold.failovers"
    asked = sql.ask(lake, query).rows.to_pylist()
    bring_up(job_of(lake))
    assert sql.ask(lake, query).rows.to_pylist() == asked
    return asked


@pytest.mark.parametrize(
    ("at_ms", "stored_ms", "quarantined"),
    [
        (BEGAN_MS + 500, BEGAN_MS, 0),
        (BEGAN_MS + 500, -1, 0),
        (LONG_MAX, BEGAN_MS, 1),
        (BEGAN_MS + 500, -(2**63), 1),
        (CLOCK_MS_MAX + 1, CLOCK_MS_MAX + 1, 2),
    ],
)
def test_an_event_of_no_clock_is_quarantined_and_gold_goes_on(
    lake: Lake, at_ms: int, stored_ms: int, quarantined: int
) -> None:
    land(lake, log_with(events(at_ms, stored_ms)))
    assert count_rows(lake, UNREADABLE) == quarantined
    known = not quarantined and stored_ms >= 0
    assert told(lake) == [{"new_epoch": 2, "unavailable_ms": 500 if known else None}]


def test_an_outcome_of_no_clock_is_quarantined_and_gold_goes_on(lake: Lake) -> None:
    """The next outcome says that nothing more comes of that command."""
    past, _ = failed_over()
    past.register(2)
    outcomes = outcome_records(past.records)
    mad = decode(outcomes[ELECTED][3] or b"")
    mad.phases.update(detected=-(2**63), applied=LONG_MAX)
    outcomes[ELECTED] = (OUTCOMES_TOPIC, 0, ELECTED, encode(mad))
    land(lake, [*command_records(past.records), *outcomes])
    [row] = read(lake, UNREADABLE).to_pylist()
    assert row["reason"].startswith("silver/decisions: phases is not between")
    assert [row["new_epoch"] for row in told(lake)] == [2]


def test_rows_that_landed_before_times_were_checked_end_nothing(lake: Lake) -> None:
    """Tables of an earlier release: what it took in stays, and counts for nothing."""
    land(lake, log_with(events(BEGAN_MS + 500, BEGAN_MS)))
    for table, wrong in (
        (EPOCHS, {"last_store_ms": -(2**63)}),
        (ACKNOWLEDGED, {"at_ms": LONG_MAX}),
        (DECISIONS, {"phases": [("detected", -(2**63)), ("applied", LONG_MAX)]}),
    ):
        rewritten(lake, table.name, wrong)
    assert told(lake) == [{"new_epoch": 2, "unavailable_ms": None}]


def rewritten(lake: Lake, name: str, wrong: dict[str, Any]) -> None:
    """The table as if its rows had come with these values."""
    table = BY_NAME[name]
    rows = [{**row, **wrong} for row in read(lake, table).to_pylist()]
    shutil.rmtree(lake.uri(table))
    ensure_table(lake, table)
    append_rows(lake, table, rows)


def test_bytes_cut_off_beyond_every_number_end_nothing(lake: Lake) -> None:
    cut = [
        encode(LogTruncated(head(n, BEGAN_MS + 1000 * ELECTED), LONG_MAX, -(2**63), 1, "mad"))
        for n in (3, 4)
    ]
    land(lake, log_with(event_records(cut)))
    assert count_rows(lake, TRUNCATED) == 2
    told(lake)
    assert read(lake, FAILOVERS)["truncated_bytes"].to_pylist() == [LONG_MAX]
