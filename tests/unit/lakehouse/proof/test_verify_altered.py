"""What was altered without a trace that the fold sees is found by proofs, in words."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.verify import Scope, verify_here
from lakehouse.tables import delta
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from tests.support import tampered_lake
from tests.support.examples import some
from tests.support.landed_log import command_records, land, outcome_records
from tests.support.proven_lake import (
    LATER,
    RANGE,
    altered,
    history_with_failover,
    landed,
    republished,
    without_names,
)

QUIET_ALTERATIONS = {
    "publisher": (OUTCOMES_TOPIC, 0, republished(3, publisher="evil")),
    "phases": (OUTCOMES_TOPIC, 0, republished(3, phases={"applied": 1})),
    "time of publishing": (OUTCOMES_TOPIC, 0, republished(3, published_at_ms=1)),
    "outcome twice": (OUTCOMES_TOPIC, 0, lambda rows: [*rows, rows[3]]),
    "timestamp": (COMMANDS_TOPIC, 0, altered(3, timestamp=LATER)),
    "timestamp's type": (COMMANDS_TOPIC, 0, altered(3, timestamp_type=1)),
    "key": (COMMANDS_TOPIC, 0, altered(3, key=b"key")),
    "event": (BROKER_EVENTS_TOPIC, 0, altered(2, value=b"x")),
    "event of another partition": (BROKER_EVENTS_TOPIC, 1, altered(1, timestamp=LATER)),
    "when it landed": (BROKER_EVENTS_TOPIC, 0, altered(1, landed_at=LATER)),
    "batch": (COMMANDS_TOPIC, 0, altered(1, batch=77)),
}


@pytest.mark.parametrize("what", some(QUIET_ALTERATIONS))
def test_what_the_fold_does_not_see_is_found_by_its_name(lake: Lake, what: str) -> None:
    landed(lake)
    topic, partition, change = QUIET_ALTERATIONS[what]
    tampered_lake.tamper(lake, topic, 1, change, partition)
    [told] = verify_here(lake).problems
    assert "Delta's log says" in told and f"{topic}-{partition} offsets 0 to" in told
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake)
    assert (verdict.exit_code, verdict.problems) == (1, []) and verdict.first_mismatch is None
    assert {(one.topic, one.partition) for one in verdict.findings} == {(topic, partition)}
    assert f"bronze/records, {topic}-{partition} offset" in verdict.text()
    assert "not what was proven at" in verdict.text()
    assert verify_here(lake, Scope(from_start=True)).findings == verdict.findings
    assert verify_here(lake).findings == verdict.findings, "it does not become proven by itself"


@pytest.mark.parametrize("topic", [COMMANDS_TOPIC, OUTCOMES_TOPIC, BROKER_EVENTS_TOPIC])
def test_an_end_that_was_taken_away_is_found_in_the_shortest_history(
    lake: Lake, topic: str
) -> None:
    last = landed(lake) - 1
    at = 2 if topic == BROKER_EVENTS_TOPIC else last
    tampered_lake.tamper(lake, topic, at, lambda rows: rows[:-1])
    verdict = verify_here(lake)
    assert verdict.exit_code == 1
    assert f"{topic}-0 offset {at}: bronze ends at offset {at - 1}" in verdict.text()
    assert "the end was taken away; put the files and commits back" in verdict.text()


def test_names_that_were_taken_away_of_one_piece_are_told(lake: Lake) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    land(lake, command_records(history.records) + outcome_records(history.records))
    assert verify_here(lake, scope).exit_code == 0
    without_names(lake, lambda row: (row["topic"], row["number"]) != (OUTCOMES_TOPIC, 0))
    tampered_lake.tamper(lake, OUTCOMES_TOPIC, 3, republished(3, publisher="evil"))
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake, scope)
    assert verdict.exit_code == 1
    assert f"proof/names has no name of {OUTCOMES_TOPIC}-0 offsets 0 to 4" in verdict.text()
    assert f"{OUTCOMES_TOPIC}-0 offsets 0 to 4: not what was proven, by proof/pieces" in (
        verdict.text()
    )


def test_names_that_were_taken_away_of_one_partition_are_told(lake: Lake) -> None:
    landed(lake)
    without_names(lake, lambda row: row["topic"] != BROKER_EVENTS_TOPIC or row["partition"] != 0)
    assert verify_here(lake).notices == [
        f"3 records of {BROKER_EVENTS_TOPIC}-0 are named for the first time"
    ]


def swapped(rows: list[Any]) -> list[Any]:
    return [
        *rows[:3],
        rows[3] | {"value": rows[4]["value"]},
        rows[4] | {"value": rows[3]["value"]},
        *rows[5:],
    ]


FIRST_PROOF_ALTERATIONS = {
    "two outcomes exchanged": (OUTCOMES_TOPIC, swapped),
    "an outcome gone, the others moved up": (
        OUTCOMES_TOPIC,
        lambda rows: tampered_lake.renumbered([*rows[:3], *rows[4:]]),
    ),
}


@pytest.mark.parametrize("what", FIRST_PROOF_ALTERATIONS)
def test_outcomes_that_moved_are_found_by_a_first_proof(lake: Lake, what: str) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    topic, change = FIRST_PROOF_ALTERATIONS[what]
    tampered_lake.tamper(lake, topic, 3, change)
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake)
    assert verdict.exit_code == 1
    assert "offset 3: it is about command 4, and none before it about command 3" in verdict.text()


def with_kept_pieces(lake: Lake, topic: str, **columns: Any) -> None:
    """The proofs kept something else of the pieces of a topic."""
    rows = delta.read(lake, PROVEN).to_pylist()
    shutil.rmtree(lake.uri(PROVEN))
    ensure_tables(lake, (PROVEN,))
    changed = [row | columns if row["topic"] == topic else row for row in rows]
    delta.append_rows(lake, PROVEN, changed)


@pytest.mark.parametrize("reach", [(0, 0), (0, 99), (-1, -1), (99, 0)])
def test_every_outcome_is_compared_whatever_proofs_kept_of_whom_it_is_about(
    lake: Lake, reach: tuple[int, int]
) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    land(lake, command_records(history.records) + outcome_records(history.records))
    assert verify_here(lake, scope).exit_code == 0
    with_kept_pieces(lake, OUTCOMES_TOPIC, lowest=reach[0], highest=reach[1])
    for again in (scope, Scope(3, 9, range_records=RANGE), Scope(7, range_records=RANGE)):
        verdict = verify_here(lake, again)
        assert (verdict.exit_code, verdict.compared) == (1, verdict.commands)
        assert (
            f"proof/pieces says of {OUTCOMES_TOPIC}-0 offsets 5 to 9 that they are about commands "
            f"{reach[0]} to {reach[1]}, and they are about 5 to 9: put the table's files back"
        ) in verdict.text()
    everything = verify_here(lake, Scope(from_start=True, range_records=RANGE))
    assert (everything.exit_code, everything.compared) == (0, len(history.records))
    assert verify_here(lake, scope).exit_code == 0, "all was compared, and is kept anew"
