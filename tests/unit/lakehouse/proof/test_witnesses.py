"""Everything in a lake that remembers how long history was is asked, and one of them is enough."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.invariants.alarms import SHORT
from lakehouse.invariants.lengths import AHEAD_MAX_MS
from lakehouse.proof.verify import verify_here
from lakehouse.proof.witnesses import checked, witnesses
from lakehouse.tables.delta import open_table
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import listed_files
from lakehouse.tables.specs import BRONZE
from tests.support import tampered_lake
from tests.support.examples import some
from tests.support.judged_history import sound_voices
from tests.support.landed_log import append_to_bronze, event_records, land
from tests.support.landed_log import command_records as commands_of
from tests.support.landed_log import outcome_records as outcomes_of
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, _ = failed_over()
EVENTS = [encode(row.event) for row in sound_voices().rows]
COMMANDS, OUTCOMES = commands_of(PAST.records), outcomes_of(PAST.records)
END = len(COMMANDS)
COMMANDS_PLACE, OUTCOMES_PLACE = (COMMANDS_TOPIC, 0), (OUTCOMES_TOPIC, 0)


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """All of it but the last two commands and outcomes, which came last and in files of their
    own.
    """
    land(lake, [*COMMANDS[:-2], *OUTCOMES[:-2]])
    land(lake, [*COMMANDS, *OUTCOMES], 1)
    return lake


def by_gold(lake: Lake) -> None:
    bring_up(job_of(lake))


def by_check(lake: Lake) -> None:
    assert checked(lake).exit_code == 0


def by_proof(lake: Lake) -> None:
    assert verify_here(lake).exit_code == 0
    shutil.rmtree(Path(lake.root) / "proof" / "pieces", ignore_errors=True)


def only_silver(lake: Lake) -> None:
    """Nobody came by; silver's files are from long ago."""
    tampered_lake.with_times_moved(lake, -2 * AHEAD_MAX_MS)


def with_last_commands_and_outcomes_taken_away(lake: Lake) -> None:
    """By the last commit of bronze, as if it had never been."""
    files = listed_files(lake, BRONZE, open_table(lake, BRONZE))
    commit = sorted((Path(lake.uri(BRONZE)) / "_delta_log").glob("*.json"))[-1]
    os.remove(commit)
    assert len(listed_files(lake, BRONZE, open_table(lake, BRONZE))) < len(files)


WHO: dict[str, Callable[[Lake], None]] = {
    "gold/progress": by_gold,
    "proof/check": by_check,
    "proof/names": by_proof,
    "silver/decisions": only_silver,
}


@pytest.mark.parametrize("who", some(WHO))
def test_one_witness_is_enough_for_check_and_proof(landed: Lake, who: str) -> None:
    WHO[who](landed)
    with_last_commands_and_outcomes_taken_away(landed)
    if who != "silver/decisions":
        shutil.rmtree(Path(landed.root) / "silver")
        shutil.copytree(Path(lake_before(landed)), Path(landed.root) / "silver")
    report, verdict = checked(landed), verify_here(landed)
    for text in (report.text(), verdict.text()):
        assert f"bronze ends at offset {END - 3}" in text
        assert f"know records up to {END - 1}" in text or f"knows records up to {END - 1}" in text
        assert who in text and "start the landing job without its checkpoint folder" in text
    assert report.exit_code == verdict.exit_code == 1
    assert {one.alarm for one in report.alarms} == {SHORT}


def lake_before(lake: Lake) -> str:
    """Silver of a lake in which the last records never landed."""
    other = Lake(f"{lake.root}-before", lake.cluster_id)
    land(other, [*COMMANDS[:-2], *OUTCOMES[:-2]])
    return f"{other.root}/silver"


def test_silver_that_was_written_just_now_may_be_ahead_for_a_moment(landed: Lake) -> None:
    with_last_commands_and_outcomes_taken_away(landed)
    ends = {COMMANDS_PLACE: END - 2, OUTCOMES_PLACE: END - 2}
    told = witnesses(landed).beyond(ends)
    assert {(COMMANDS_TOPIC, END), (OUTCOMES_TOPIC, END)} <= {(one.topic, one.end) for one in told}
    assert all(one.written_ms for one in told)
    assert checked(landed).exit_code == 0


def test_broker_events_have_witnesses_in_silver_too(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    land(lake, event_records(EVENTS, 1), 1)
    tampered_lake.with_times_moved(lake, -2 * AHEAD_MAX_MS)
    with_last_commands_and_outcomes_taken_away(lake)
    append_to_bronze(lake, event_records(EVENTS[:1], 1))
    report = checked(lake)
    assert f"{BROKER_EVENTS_TOPIC}-1 bronze ends at offset 0" in report.text()


def test_nobody_remembers_more_than_is_there(landed: Lake) -> None:
    for come_by in WHO.values():
        come_by(landed)
    found = witnesses(landed)
    assert {one.who for one in found.remembered} == {"gold/progress", "proof/check", "proof/names"}
    assert found.beyond({COMMANDS_PLACE: END, OUTCOMES_PLACE: END}) == []
    assert checked(landed).exit_code == 0 == verify_here(landed).exit_code
