"""A footer that hides rows from questions is named with the column, and honest ones never are."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse.proof.verify import verify_here
from lakehouse.tables import delta
from lakehouse.tables.footers import false_footers
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records

RECORDS = with_master(1, 2, 3).records
LAST = len(RECORDS) - 1


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    return lake


def with_narrow_footer(lake: Lake, at: int) -> str:
    """The footer of the commands' file says that offsets end at `at`; the file's name."""
    [uri] = delta.active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC,))[COMMANDS_TOPIC]
    path = Path(uri.removeprefix("file://"))
    data = path.read_bytes()
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    there, new = (struct.pack("<q", one) for one in (LAST, at))
    assert there in data[start:]
    path.write_bytes(data[:start] + data[start:].replace(there, new))
    return path.name


def test_honest_footers_are_as_the_rows_are(landed: Lake) -> None:
    for table in (BRONZE, *delta.LANDING_TABLES):
        assert list(false_footers(landed, table, delta.open_table(landed, table))) == []


def test_a_bound_that_hides_rows_is_named_and_nothing_of_that_file_is_kept(landed: Lake) -> None:
    name = with_narrow_footer(landed, 3)
    [told] = false_footers(landed, BRONZE, delta.open_table(landed, BRONZE), ("offset",))
    assert name in told and f"offset ends with 3, there is {LAST}; put it back" in told
    assert not list(false_footers(landed, BRONZE, delta.open_table(landed, BRONZE), ("batch",)))
    far = replace(landed, root=f"file://{landed.root}")  # As an object store is reached.
    assert [told] == list(false_footers(far, BRONZE, delta.open_table(far, BRONZE), ("offset",)))
    verdict = verify_here(landed)
    assert verdict.exit_code == 1 and told in verdict.problems
    assert verdict.not_kept is not None
