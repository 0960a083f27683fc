"""Who alters all of a lake consistently is found by what was told outside of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest
from msgspec.structs import replace

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.landing.anchoring import Anchoring, ToTable, read_anchors
from lakehouse.layers.beside_anchors import compare_anchors
from lakehouse.proof.verify import verify_here
from lakehouse.tables import delta
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import DECISIONS
from tests.support import tampered_lake
from tests.support.control_history import with_master
from tests.support.landed_log import Record, command_records, event_records, land, outcome_records

RECORDS = with_master(1, 2, 3).records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
END = len(RECORDS)
EVENTS: list[Record] = event_records([b"e%d" % n for n in range(2_300)], 1)


@pytest.fixture
def file(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    land(lake, [*COMMANDS, *OUTCOMES, *EVENTS])
    found: Path = tmp_path_factory.mktemp("elsewhere") / "anchors"
    Anchoring(lake, found).step()
    return found


def told(lake: Lake, file: Path) -> list[str]:
    return [one.text() for one in compare_anchors(lake, BronzeFiles(lake), str(file), {}).findings]


def test_a_lake_that_is_what_it_was_holds(lake: Lake, file: Path) -> None:
    found = compare_anchors(lake, BronzeFiles(lake), str(file), {})
    assert found.findings == [] and found.notices[0].startswith("5 anchors hold, the newest of ")


def test_a_history_that_was_landed_anew_holds_too(lake: Lake, file: Path) -> None:
    shutil.rmtree(lake.root)
    land(lake, EVENTS[:1_200], 7)
    land(lake, [*COMMANDS, *OUTCOMES, *EVENTS], 8)
    assert told(lake, file) == []


ALTERED: dict[str, tuple[str, int, Callable[[list[Any]], list[Any]], str]] = {
    "an event": (
        BROKER_EVENTS_TOPIC,
        1,
        lambda rows: [*rows[:1_500], rows[1_500] | {"value": b"x"}, *rows[1_501:]],
        "regent.broker-events-1 offsets 1000 to 1999: not what was anchored",
    ),
    "a timestamp": (
        COMMANDS_TOPIC,
        0,
        lambda rows: [rows[0], rows[1] | {"timestamp": rows[0]["timestamp"]}, *rows[2:]],
        f"regent.commands-0 offsets 0 to {END - 1}: not what was anchored",
    ),
    "an end": (
        BROKER_EVENTS_TOPIC,
        1,
        lambda rows: rows[:2_100],
        "regent.broker-events-1 offsets 2100 to 2299: bronze ends at offset 2099, anchored up to",
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_alterations_without_any_trace_in_the_lake_are_named(
    lake: Lake, file: Path, what: str
) -> None:
    topic, partition, change, expected = ALTERED[what]
    tampered_lake.tamper(lake, topic, 1, change, partition)
    tampered_lake.with_sizes_put_right(lake)
    [found] = told(lake, file)
    assert expected in found and "'regent verify --kafka' says what the log has there" in found


def test_another_history_that_proves_itself_is_not_the_one_that_was_anchored(
    lake: Lake, file: Path
) -> None:
    """Everything was made anew, sizes, silver and proofs included."""
    other = with_master(1, 2)
    other.register(1, "another")
    shutil.rmtree(lake.root)
    land(lake, [*command_records(other.records), *outcome_records(other.records), *EVENTS])
    assert verify_here(lake).exit_code == 0
    found = told(lake, file)
    assert any(COMMANDS_TOPIC in one for one in found), found
    assert any(OUTCOMES_TOPIC in one for one in found), found


def test_a_digest_in_silver_is_held_against_the_anchored_one(lake: Lake, file: Path) -> None:
    rows = delta.read(lake, DECISIONS).to_pylist()
    shutil.rmtree(lake.uri(DECISIONS))
    delta.ensure_table(lake, DECISIONS)
    delta.append_rows(lake, DECISIONS, [row | {"digest": "0" * 64} for row in rows])
    [found] = told(lake, file)
    assert f"silver/decisions, regent.commands-0 offset {END - 1}: its digest is 0000" in found


def rewritten(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = change(file.read_text("utf-8").splitlines())
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def test_lines_that_are_gone_moved_or_stand_twice_change_nothing_that_holds(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES, *event_records([b"e"] * 3_100, 1)])
    file: Path = tmp_path_factory.mktemp("elsewhere") / "anchors"
    Anchoring(lake, file).step()
    whole = file.read_text("utf-8")
    at = next(n for n, line in enumerate(whole.splitlines()) if '"offset":1999,' in line)
    rewritten(file, lambda lines: [*lines[:at], *lines[at + 1 :]])
    gone = compare_anchors(lake, BronzeFiles(lake), str(file), {})
    [told] = gone.problems
    assert "regent.broker-events-1 are missing, 1 between those of offset 999 and 2999" in told
    assert "put the lines back from a copy" in told
    for change, said in (
        (lambda lines: [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]], True),
        (lambda lines: [*lines, *lines], False),
    ):
        file.write_text(whole, "utf-8")
        rewritten(file, change)
        found = compare_anchors(lake, BronzeFiles(lake), str(file), {})
        assert (found.problems, found.findings) == ([], [])
        assert any("do not stand in the order" in one for one in found.notices) is said


def test_anchors_that_were_rolled_back_say_how_much_they_no_longer_hold(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A table of anchors as it was before, its log and its checkpoint included, and a file too."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    table = elsewhere / "table"
    anchoring = Anchoring(lake, elsewhere / "file", [ToTable(str(table), {})])
    land(lake, [*COMMANDS, *OUTCOMES, *EVENTS[:1_200]])
    anchoring.step()
    deltalake.DeltaTable(table).create_checkpoint()
    shutil.copytree(table, elsewhere / "yesterday")
    land(lake, EVENTS, 1)
    anchoring.step()
    now = compare_anchors(lake, BronzeFiles(lake), str(table), {})
    assert len(now.notices) == 1 and not now.problems
    found = compare_anchors(lake, BronzeFiles(lake), str(elsewhere / "yesterday"), {})
    assert any(
        "1100 records of regent.broker-events-1 lie behind its last anchor" in one
        for one in found.notices
    )


def test_rows_of_a_table_that_are_no_anchors_are_a_problem(
    lake: Lake, file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = tmp_path_factory.mktemp("table")
    own, _ = read_anchors(str(file))
    ToTable(str(table), {}).give([*own, replace(own[0], link="zz"), replace(own[0], at_ms=-5)])
    found = compare_anchors(lake, BronzeFiles(lake), str(table), {})
    assert len(found.problems) == 2 and not found.findings
    assert f"a row of the anchors in {table} is none" in found.problems[0]


def test_lines_that_are_none_are_a_problem_and_anchors_of_others_no_help(
    lake: Lake, file: Path
) -> None:
    file.write_text("junk\n" + file.read_text())
    assert (
        "line 1 of the anchors is none"
        in (compare_anchors(lake, BronzeFiles(lake), str(file), {}).problems[0])
    )
    file.write_text(file.read_text().replace(str(lake.cluster_id), "somebody"))
    with pytest.raises(LakehouseError, match="only of somebody"):
        told(lake, file)
