"""What landed is told outside the lake, each anchor at least once and in order, whatever ends the
job.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.landing import anchoring as anchoring_module
from lakehouse.landing.anchoring import (
    OWN_FILE,
    Anchoring,
    ToCommand,
    ToFile,
    ToTable,
    anchoring_of,
    read_anchors,
)
from lakehouse.landing.config import LandConfig
from lakehouse.proof.anchors import Anchor
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import DECISIONS
from tests.support.control_history import with_master
from tests.support.landed_log import Record, command_records, event_records, land, outcome_records

RECORDS = with_master(1, 2, 3).records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
END = len(RECORDS)
EVENTS: list[Record] = event_records([b"e%d" % n for n in range(2_300)], 1)
HOUR_MS = 3_600_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_767_225_600_000

    def __call__(self) -> int:
        return self.now_ms


class Refusing:
    """Takes nothing."""

    def give(self, anchors: object) -> None:
        raise LakehouseError("not today")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "anchors.jsonl"


def places(file: Path) -> list[tuple[str, int]]:
    return [(one.topic, one.offset) for one in read_anchors(str(file))[0]]


def test_every_thousandth_record_and_now_and_then_the_end(lake: Lake, file: Path) -> None:
    clock = Clock()
    land(lake, EVENTS[:1_500])
    anchoring = Anchoring(lake, file, clock_ms=clock)
    assert anchoring.step() == 2
    assert places(file) == [(BROKER_EVENTS_TOPIC, 999), (BROKER_EVENTS_TOPIC, 1_499)]
    land(lake, EVENTS, 1)
    assert anchoring.step() == 1, "the end was anchored less than an hour ago"
    assert places(file)[2:] == [(BROKER_EVENTS_TOPIC, 1_999)]
    clock.now_ms += HOUR_MS
    assert (anchoring.step(), anchoring.step()) == (1, 0)
    assert places(file)[3:] == [(BROKER_EVENTS_TOPIC, 2_299)]


def test_in_pieces_or_at_once_the_links_are_the_same(
    lake: Lake, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = tmp_path / "once.jsonl"
    for count in (700, 1_000, 1_900, 2_300):
        land(lake, EVENTS[:count])
        Anchoring(lake, file, clock_ms=Clock()).step()  # A new job each time.
    monkeypatch.setattr(anchoring_module, "RECORDS_AT_ONCE", 1_000)
    Anchoring(lake, once, clock_ms=Clock()).step()
    links = {one.offset: one.link for one in read_anchors(str(once))[0]}
    assert sorted(links) == [999, 1_999, 2_299]
    found = {one.offset: one.link for one in read_anchors(str(file))[0]}
    assert {999, 1_999} <= found.keys()
    assert all(found[offset] == link for offset, link in links.items() if offset in found)


def test_a_command_waits_for_its_outcome_and_takes_its_digest(lake: Lake, file: Path) -> None:
    land(lake, COMMANDS)
    anchoring = Anchoring(lake, file)
    assert anchoring.step() == 0
    land(lake, OUTCOMES, 1)
    assert anchoring.step() == 2
    commands, outcomes = read_anchors(str(file))[0]
    digests = read(lake, DECISIONS, columns=["digest"])["digest"].to_pylist()
    assert (commands.topic, commands.offset, commands.digest) == (
        COMMANDS_TOPIC,
        END - 1,
        digests[-1],
    )
    assert (outcomes.topic, outcomes.digest) == (OUTCOMES_TOPIC, None)


def test_how_far_it_is_may_be_told_by_who_knows(lake: Lake, file: Path) -> None:
    land(lake, EVENTS)
    anchoring = Anchoring(lake, file)
    assert anchoring.step(ends={(BROKER_EVENTS_TOPIC, 1): 1_000}) == 1
    assert anchoring.step(ends={}) == 0
    assert anchoring.step(lambda: True) == 0


def test_what_somebody_did_not_take_is_given_again(lake: Lake, file: Path) -> None:
    land(lake, EVENTS[:1_000])
    with pytest.raises(LakehouseError, match="not today"):
        Anchoring(lake, file, [Refusing()]).step()
    assert not file.exists()
    assert Anchoring(lake, file).step() == 1


def test_a_line_that_was_cut_costs_no_other_line(lake: Lake, file: Path) -> None:
    land(lake, EVENTS[:1_000])
    Anchoring(lake, file).step()
    file.write_text(file.read_text()[:-20])
    land(lake, EVENTS[:2_000], 1)
    assert Anchoring(lake, file).step() == 2
    assert places(file) == [(BROKER_EVENTS_TOPIC, 999), (BROKER_EVENTS_TOPIC, 1_999)]


def test_a_program_gets_the_lines_and_may_refuse_them(
    lake: Lake, file: Path, tmp_path: Path
) -> None:
    land(lake, EVENTS[:2_000])
    taken = tmp_path / "taken"
    program = f"import sys; open({str(taken)!r}, 'a').write(sys.stdin.read())"
    Anchoring(lake, file, [ToCommand((sys.executable, "-c", program))]).step()
    assert taken.read_text() == file.read_text() and taken.read_text().count("\n") == 2
    refusing = ToCommand((sys.executable, "-c", "import sys; sys.exit('no room')"))
    with pytest.raises(LakehouseError, match="exit code 1 no room"):
        refusing.give([])
    with pytest.raises(LakehouseError, match="not given to /no/such/program"):
        ToCommand(("/no/such/program",)).give([])


def test_a_table_elsewhere_gets_the_same(lake: Lake, file: Path, tmp_path: Path) -> None:
    land(lake, EVENTS[:2_000])
    place = str(tmp_path / "table")
    Anchoring(lake, file, [ToTable(place, {})]).step()
    assert (
        sorted(read_anchors(place)[0], key=lambda one: one.offset) == (read_anchors(str(file))[0])
    )


def test_a_place_without_anchors_is_an_error(tmp_path: Path) -> None:
    for place in (str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(LakehouseError, match="anchors cannot be read"):
            read_anchors(place)
    with pytest.raises(LakehouseError, match="cannot be written"):
        (tmp_path / "file").write_text("")
        ToFile(tmp_path / "file" / "below").give([])


def test_anchors_of_other_clusters_in_the_same_file_are_left_alone(lake: Lake, file: Path) -> None:
    other = Anchor(
        cluster_id="other", topic=BROKER_EVENTS_TOPIC, partition=1, offset=99_999, link="00" * 32
    )
    ToFile(file).give([other])
    land(lake, EVENTS[:1_000])
    assert Anchoring(lake, file).step() == 1


def test_a_job_s_configuration_names_who_is_told(lake: Lake, tmp_path: Path) -> None:
    where = {"kafka": {"bootstrap.servers": "k:1"}, "tables": lake.root, "jars_dir": tmp_path}
    config = LandConfig(checkpoint_dir=str(tmp_path / "job"), **where)
    assert not config.has_anchors
    config = LandConfig(
        checkpoint_dir=str(tmp_path / "job"),
        anchors_command=["true"],
        anchors_table=str(tmp_path / "table"),
        **where,
    )
    land(lake, EVENTS[:1_000])
    assert config.has_anchors and anchoring_of(config, lake).step() == 1
    assert places(tmp_path / "job" / OWN_FILE) == places(tmp_path / "table")
