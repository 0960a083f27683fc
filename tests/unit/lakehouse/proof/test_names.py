"""Names of blocks: equal for equal rows only, whatever the column; the chain stands for all before
it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.proof.names import NOTHING, Chain, block_ends, block_names, first_link
from lakehouse.tables.specs import BRONZE

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = 10


def row(offset: int, **other: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c",
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "timestamp": BEGAN + timedelta(seconds=offset),
        "timestamp_type": 1,
        "key": b"k%d" % offset,
        "value": b"v%d" % offset,
        "landed_at": BEGAN,
        "batch": 4,
    } | other


ROWS = [row(offset) for offset in range(25)]


def names(rows: list[dict[str, Any]], *cuts: int, end: int = 25) -> dict[int, Any]:
    return block_names(pa.Table.from_pylist(rows, schema=BRONZE.schema), end, cuts, SIZE)


def test_each_block_has_a_name_and_so_has_what_landed_of_the_last_one() -> None:
    found = names(ROWS)
    assert sorted(found) == [10, 20, 25] == block_ends(0, 25, SIZE)
    assert len({name.log for name in found.values()}) == 3
    assert sorted(names(ROWS, 13, 20, 99)) == [10, 13, 20, 25]
    assert names(ROWS, 13)[13] == names(ROWS[:13], end=13)[13]
    assert block_ends(10, 20, SIZE) == [20] and block_ends(20, 20, SIZE) == []


def test_the_order_of_rows_says_nothing() -> None:
    assert names(ROWS[::-1]) == names(ROWS)
    twice = [*ROWS, row(7, value=b"other")]
    assert names(twice) == names(twice[::-1]) != names(ROWS)


OF_THE_LOG: dict[str, list[dict[str, Any]]] = {
    "value": [row(7, value=b"v8")],
    "no value": [row(7, value=None)],
    "empty value": [row(7, value=b"")],
    "key": [row(7, key=b"k8")],
    "no key": [row(7, key=None)],
    "bytes moved from key to value": [row(7, key=b"k", value=b"7v7")],
    "timestamp": [row(7, timestamp=BEGAN + timedelta(seconds=7, microseconds=1))],
    "no timestamp": [row(7, timestamp=None)],
    "timestamp_type": [row(7, timestamp_type=0)],
    "gone": [],
    "twice": [row(7), row(7)],
}


@pytest.mark.parametrize("rows", OF_THE_LOG.values(), ids=OF_THE_LOG)
def test_whatever_the_log_gave_is_in_the_name_of_its_block_alone(
    rows: list[dict[str, Any]],
) -> None:
    then, now = names(ROWS), names([*ROWS[:7], *rows, *ROWS[8:]])
    assert then[10].log != now[10].log
    assert [then[20], then[25]] == [now[20], now[25]]


def test_bytes_that_move_from_one_record_to_the_next_are_another_name() -> None:
    moved = [*ROWS[:7], row(7, value=b"v7v"), row(8, value=b"8"), *ROWS[9:]]
    assert names(moved)[10].log != names(ROWS)[10].log


@pytest.mark.parametrize("other", [{"landed_at": BEGAN + timedelta(hours=1)}, {"batch": 5}])
def test_what_landing_noted_is_named_apart(other: dict[str, Any]) -> None:
    then, now = names(ROWS), names([*ROWS[:7], row(7, **other), *ROWS[8:]])
    assert then[10].log == now[10].log and then[10].landing != now[10].landing
    assert then[10].packed != now[10].packed


def test_a_block_in_which_nothing_landed_has_no_name_and_a_place_in_the_chain() -> None:
    holed = names([*ROWS[:10], *ROWS[20:]])
    assert sorted(holed) == [10, 25]
    begin = first_link("c", "t", 0)
    assert Chain(begin, size=SIZE).to(25, holed) == Chain(begin, size=SIZE).to(
        25, {**holed, 20: NOTHING}
    )


def test_a_link_stands_for_all_before_it_and_the_chain_goes_on_from_whole_blocks() -> None:
    begin, now = first_link("c", "t", 0), names(ROWS, 13)
    chain = Chain(begin, size=SIZE)
    steps = [chain.to(end, now) for end in (10, 13, 20, 25)]
    assert steps == [Chain(begin, size=SIZE).to(end, now) for end in (10, 13, 20, 25)]
    assert len(set(steps)) == 4
    other = names([row(3, value=b"x") if one["offset"] == 3 else one for one in ROWS], 13)
    assert all(
        Chain(begin, size=SIZE).to(end, other) != step
        for end, step in zip((10, 13, 20, 25), steps, strict=True)
    )
    assert Chain(steps[0], at=10, size=SIZE).to(25, now) == steps[-1]
    assert first_link("c", "t", 1) != begin != first_link("d", "t", 0)


def test_names_stay_what_they_are() -> None:
    """What was kept or anchored by one release is compared by the next."""
    assert names(ROWS)[10].log.hex()[:16] == "2baf57f198f34fa5"
