"""Landing in any order: batches of the two queries, schemas that come late, readings again, kills
between two appends, checkpoints that are lost, retention of what has landed and of what has not.
The tables are those of one batch, without what is noted as lost.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, OUTCOMES_TOPIC
from lakehouse.landing.finished import DETAILS, FIRST
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Losses, read_losses
from lakehouse.tables.specs import BRONZE, BY_NAME, TABLES, UNREADABLE
from tests.support import later_release
from tests.support.control_history import with_master
from tests.support.examples import examples
from tests.support.landed_log import (
    Record,
    command_records,
    event_records,
    lake_in,
    outcome_records,
)
from tests.support.landing_in_memory import DataLoss, Killed, Landing

STEPS = 14
HISTORY = with_master(1, 2, 3)


def _log() -> list[Record]:
    """Every third outcome and every second link is of a later release."""
    outcomes: list[Record] = []
    for topic, number, offset, value in outcome_records(HISTORY.records):
        retold = later_release.retold(value or b"", later_release.outcome())
        outcomes.append((topic, number, offset, value if offset % 3 else retold))
    links = []
    for number in range(8):
        header = BrokerEventHeader(bytes([number] * 16), "c", "broker-a", 1, "i", number, number)
        ours = encode(HaLinkUp(header, 2, "out"))
        late = later_release.event_bytes(
            later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=number, hops=[]
        )
        links.append(late if number % 2 else ours)
    links.insert(3, later_release.event_bytes(later_release.disk_warm(), celsius=60.5))
    links.insert(5, b"garbage")
    return [*command_records(HISTORY.records), *outcomes, *event_records(links, 1)]


LOG = _log()
EVENTS = (BROKER_EVENTS_TOPIC, 1)
COUNT_OF_EVENTS = sum(record[:2] == EVENTS for record in LOG)


def content(lake: Lake) -> dict[str, list[Any]]:
    """Every table's rows but the quarantine's, which tells what nobody knew when it came."""
    found = {}
    for table in TABLES:
        if table is not UNREADABLE:
            rows = delta.read(lake, table)
            names = [name for name in rows.schema.names if name not in ("batch", "landed_at")]
            found[table.name] = rows.select(names).to_pylist()
    return found


class Tables(dict[str, list[Any]]):
    """Rows by table; as a text only how many there are."""

    def __repr__(self) -> str:
        return str({name: len(rows) for name, rows in self.items() if rows})


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of one batch under schemas that were there from the first."""
    folder = tmp_path_factory.mktemp("schemas")
    later_release.put_all(folder)
    with pytest.MonkeyPatch.context() as patch:
        landing = Landing(lake_in(tmp_path_factory.mktemp("whole")), folder, LOG, patch)
        landing.catch_up()
        landing.end()
        return Tables(content(landing.lake))


@given(seed=st.integers(0, 2**32), loses=st.booleans())
@settings(max_examples=examples(4), deadline=None)
def test_the_tables_are_those_of_one_batch_without_what_is_noted_as_lost(
    at_once: Tables, seed: int, loses: bool
) -> None:
    """`loses`: retention may take what has not landed."""
    chance = Random(seed)
    with TemporaryDirectory() as root, TemporaryDirectory() as schemas:
        with pytest.MonkeyPatch.context() as patch:
            landing = Landing(lake_in(Path(root)), Path(schemas), LOG, patch)
            come_at = chance.randrange(STEPS)
            for step in range(STEPS):
                if step == come_at:
                    later_release.put_all(landing.schemas)
                if chance.random() < 0.3:
                    landing.appends_left = chance.randrange(6)
                _one_step(landing, chance, loses)
            _caught_up(landing)
            landing.end()
        found, noted = content(landing.lake), read_losses(landing.lake)
        assert loses or not noted.noted
        assert sum(one.records for one in noted.noted) == len(_offsets(noted)), "each once"
        for name, whole in at_once.items():
            # What the details were ahead with stays in silver.
            ahead = (
                []
                if name == BRONZE.name
                else [row for row in found[name] if _is_lost(name, row, noted)]
            )
            expected = [row for row in whole if row in ahead or not _is_lost(name, row, noted)]
            assert Tables({name: found[name]}) == Tables({name: expected})


def _caught_up(landing: Landing) -> None:
    while True:
        try:
            landing.catch_up()
            return
        except DataLoss:
            landing.end()
            landing.begin()


def _offsets(noted: Losses) -> set[tuple[str, int, int]]:
    return {
        (*one.place, offset)
        for one in noted.noted
        for offset in range(one.from_offset, one.to_offset + 1)
    }


def _is_lost(name: str, row: dict[str, Any], noted: Losses) -> bool:
    spec = BY_NAME[name]
    place = (spec.topic or row["topic"], row[spec.partition_column])
    return noted.covers(place, row[spec.offset_column])


def _one_step(landing: Landing, chance: Random, loses: bool) -> None:
    """Something happens; a process that is killed is followed by another one, and one that the log
    has overtaken looks again.
    """
    what = chance.choice([FIRST, FIRST, DETAILS, DETAILS, "read", "restart", "lost", "retention"])
    try:
        if what in (FIRST, DETAILS):
            if loses and chance.random() < 0.3:
                _retention(landing, chance, loses)
            landing.take(what, chance.randrange(1, 5))
        elif what == "read":
            landing.job.read_again_if_learned(None)
        else:
            landing.end()
            if what == "lost" or not loses:
                landing.checkpoints.pop(DETAILS, None)
            if what == "retention":
                _retention(landing, chance, loses)
            landing.begin()
    except Killed:
        pass
    except DataLoss:
        landing.end()
        landing.appends_left = landing.appends_left or 0
    while landing.appends_left is not None:
        landing.appends_left = None
        landing.begin()


def _retention(landing: Landing, chance: Random, loses: bool) -> None:
    """Broker events go from the log, as far as they have landed and the first query is, or any."""
    landed = delta.high_water(landing.lake, BRONZE).of(EVENTS) + 1
    reached = min(landed, landing.checkpoints.get(FIRST, {}).get(EVENTS, 0))
    held = landing.first_held.get(EVENTS, 0)
    upto = min(held + 3, COUNT_OF_EVENTS) if loses else reached
    landing.first_held[EVENTS] = chance.randrange(held, max(held, upto) + 1)


def test_the_log_has_what_the_steps_are_about() -> None:
    topics = {record[0] for record in LOG}
    assert {OUTCOMES_TOPIC, BROKER_EVENTS_TOPIC} <= topics and len(LOG) > 20
