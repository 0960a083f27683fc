"""Who does the work of a proof makes no difference: this process and Spark give the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse.proof.in_process import InProcess
from lakehouse.proof.in_spark import TOLD_SAID, InSpark, gathered, said_batches
from lakehouse.proof.kept_state import kept_name, packed
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.pieces import COMMANDS, NO_REACH, OUTCOMES, PUBLISHED_SCHEMA, publish_batches
from lakehouse.proof.plan import Asked, Landed, Piece, Said, Skip, plan
from lakehouse.proof.tasks import Tasks
from lakehouse.proof.work import Work, outcomes_of
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, event_records, land, outcome_records
from tests.support.proof_rig import arrow

RECORDS = with_master(1, 2, 3).records
SIZES = Sizes(4, 2)
LAST = len(RECORDS) - 1


def test_what_published_outcomes_are_about() -> None:
    values = [(offset, value) for *_, offset, value in outcome_records(RECORDS)]
    rows = pa.Table.from_batches(publish_batches([arrow([*values[:6], (6, b"x")])]))
    found = outcomes_of(rows, 4)
    assert found.said == {
        0: Said(0, 3, frozenset({0}), 0),
        1: Said(4, 5, frozenset({1}), 1, (Skip(4, -1, 4),)),
    }
    [(offset, text)] = found.problems
    assert offset == 6 and "unreadable" in text
    assert outcomes_of(PUBLISHED_SCHEMA.empty_table(), 4).said == {}


@pytest.mark.parametrize("at_once", [1, 3, 5, 100])
def test_what_spark_is_told_of_outcomes_is_what_all_of_them_say(at_once: int) -> None:
    """Pieces 0, 2 and 3 of a task; some outcomes passed over, taken twice, and unreadable."""
    values = [(offset, value) for *_, offset, value in outcome_records(RECORDS)]
    rows = [*values[:2], (2, values[3][1]), (3, b"x"), (3, b"y"), *values[8:10], values[9]]
    rows += [(9, b"z"), (12, values[7][1]), (14, values[9][1])]
    parts = [arrow(rows[at : at + at_once]) for at in range(0, len(rows), at_once)]
    whole = outcomes_of(pa.Table.from_batches(publish_batches([arrow(rows)])), 4)
    told = [
        msgspec.msgpack.decode(row["said"], type=TOLD_SAID)
        for batch in said_batches(publish_batches(parts), 4)
        for row in batch.to_pylist()
    ]
    assert gathered(told) == replace(whole, problems=sorted(whole.problems))
    assert {n: len(one.skips) for n, one in whole.said.items()} == {0: 1, 2: 1, 3: 2}


def test_names_of_outcomes_come_with_whom_they_are_about(lake: Lake) -> None:
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    tasks = Tasks(BronzeFiles(lake), SIZES)
    names, reach = tasks.names(OUTCOMES, 4, 8, (), LAST + 1)
    assert (sorted(names), reach) == ([6, 8], (4, 7))
    assert tasks.names(COMMANDS, 4, 8, (), LAST + 1)[1] == NO_REACH


def all_of_it(work: Work, files: BronzeFiles) -> tuple[Any, ...]:
    """What a proof asks for: a first proof, then one from kept states."""
    ends = {place: int(there[-1]) + 1 for place, there in files.offsets.items()}
    names = work.names(ends, {OUTCOMES: {3, 5}})
    pieces = -(-ends[OUTCOMES] // SIZES.piece)
    outcomes = work.outcomes(range(pieces))
    first = plan(Landed(4, {}, {}, pieces), Asked(0, LAST), outcomes.said)
    folded = work.fold(first, {}).ranges
    states = {one.told.first // 4: packed(one.state, b"{}") for one in folded if one.state}
    kept = {
        (COMMANDS_TOPIC, n): Piece(COMMANDS_TOPIC, n, "", "", kept_name(state))
        for n, state in states.items()
    }
    part = plan(Landed(4, {}, kept, pieces), Asked(5, LAST, everything=True), outcomes.said)
    begins = {r: states[r - 1] for r in part.begins}
    again = sorted(work.fold(part, begins).ranges, key=lambda one: one.told.first)
    work.close()
    return names, outcomes, sorted(folded, key=lambda one: one.told.first), again


@pytest.mark.spark
def test_this_process_and_spark_do_the_same_work(
    spark: Any, lake: Lake, request: pytest.FixtureRequest
) -> None:
    land(
        lake,
        [
            *command_records(RECORDS),
            *outcome_records(RECORDS),
            *event_records([b"a", b"b", b"c"], 0),
            *event_records([b"d"], 2),
        ],
    )
    files = BronzeFiles(lake)
    makers: list[Callable[[], Work]] = [
        lambda: InProcess(files, SIZES),
        lambda: InSpark(spark, files, SIZES),
    ]
    here, there = (all_of_it(make(), files) for make in makers)
    assert here == there
    named, outcomes, folded, again = here
    names = named.names
    assert len(names) == 4 and set(names[OUTCOMES]) >= {2, 3, 4, 5, LAST + 1}
    assert names[COMMANDS][2] and sorted(outcomes.said) == list(range(LAST // 4 + 1))
    assert [one.told.first for one in folded] == list(range(0, LAST + 1, 4))
    assert [one.told.first for one in again] == list(range(4, LAST + 1, 4))
    assert all(one.told.first_mismatch is None for one in [*folded, *again])
