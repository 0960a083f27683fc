"""Records whose schema comes late, while the two queries are at different places, are in their
tables once, whatever happens in between.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LandingGap
from lakehouse.landing import batch_reading, quarantine, refill
from lakehouse.landing.finished import DETAILS, FIRST, Finished
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME, DECISIONS, ELECTIONS, TableSpec
from tests.support import later_release
from tests.support.control_history import with_master
from tests.support.landed_log import Record, outcome_records
from tests.support.landing_in_memory import Killed, Landing

LINKS = BY_NAME["silver/ha_link_up"]
Begun = Callable[[list[Record]], Landing]


def link(number: int) -> bytes:
    header = BrokerEventHeader(bytes([number] * 16), "c", "broker-a", 1, "i", 5, number)
    return encode(HaLinkUp(header, 2, "out"))


def elections(count: int) -> list[Record]:
    """Outcomes of elections, the last one as a later release writes it."""
    outcomes = [value or b"" for *_, value in outcome_records(with_master(1, 2).records)]
    known = next(value for value in outcomes if decode(value).kind == "ElectMaster")  # type: ignore[union-attr]
    late = later_release.retold(known, later_release.outcome())
    values = [*[known] * (count - 1), late]
    return [(OUTCOMES_TOPIC, 0, offset, value) for offset, value in enumerate(values)]


def links(count: int, late_at: int) -> list[Record]:
    late = later_release.event_bytes(
        later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=7, hops=[]
    )
    return [
        (BROKER_EVENTS_TOPIC, 0, offset, late if offset == late_at else link(offset))
        for offset in range(count)
    ]


@pytest.fixture
def begun(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Begun:
    """A job over a log."""
    return lambda log: Landing(lake, tmp_path_factory.mktemp("schemas"), log, monkeypatch)


def offsets(landing: Landing, table: TableSpec) -> list[int]:
    rows = delta.read(landing.lake, table, columns=["log_offset"])
    return sorted(rows["log_offset"].to_pylist())


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarts"])
def test_a_record_of_which_the_other_query_lacks_those_in_front_waits(
    begun: Begun, restarts: bool
) -> None:
    landing = begun(elections(6))
    landing.take(DETAILS, 2)
    landing.take(FIRST, 6)  # nobody can read 5
    later_release.put_all(landing.schemas)
    for _ in range(2):
        if restarts:
            landing.end()
            landing.begin()
        landing.job.read_again_if_learned(None)
    assert offsets(landing, DECISIONS) == [*range(6)], "the query that owns them has gone by"
    assert offsets(landing, ELECTIONS) == [0, 1]
    landing.take(DETAILS, 6)
    landing.job.read_again_if_learned(None)
    assert offsets(landing, ELECTIONS) == [*range(6)]


def test_killed_between_the_quarantine_and_the_table_nothing_is_lost_or_doubled(
    begun: Begun,
) -> None:
    landing = begun(links(5, late_at=4))
    landing.take(FIRST, 5)
    landing.appends_left = 1
    with pytest.raises(Killed):
        landing.take(DETAILS, 5)
    assert (offsets(landing, LINKS), landing.appends_left) == ([], 0)
    later_release.put_all(landing.schemas)
    landing.appends_left = None
    landing.begin()
    assert offsets(landing, LINKS) == [], "its query takes it"
    landing.catch_up()
    assert offsets(landing, LINKS) == [*range(5)]


def test_a_checkpoint_that_is_lost_after_a_late_row_changes_nothing(begun: Begun) -> None:
    landing = begun(links(6, late_at=2))
    landing.catch_up()
    later_release.put_all(landing.schemas)
    landing.job.read_again_if_learned(None)
    assert offsets(landing, LINKS) == [*range(6)]
    landing.end()
    landing.checkpoints.clear()
    landing.begin()
    landing.catch_up()
    assert offsets(landing, LINKS) == [*range(6)]


def test_what_retention_took_before_a_query_came_to_it_is_made_from_bronze(begun: Begun) -> None:
    """The checkpoint is lost as well: else Spark says that it begins behind a hole."""
    landing = begun(links(10, late_at=9))
    landing.take(DETAILS, 2)
    landing.take(FIRST, 10)
    landing.end()
    landing.checkpoints.clear()
    landing.first_held[BROKER_EVENTS_TOPIC, 0] = 7
    landing.begin()
    assert offsets(landing, LINKS) == [*range(7)]
    landing.catch_up()
    assert offsets(landing, LINKS) == [*range(9)]


def test_a_query_that_would_step_over_records_is_stopped(begun: Begun) -> None:
    landing = begun(links(6, late_at=9))
    landing.take(DETAILS, 2)
    landing.log = landing.log[4:]
    with pytest.raises(LandingGap, match="records 2 to 3 are missing"):
        landing.take(DETAILS, 6)


def test_what_a_checkpoint_vouches_for_is_not_looked_up_in_bronze() -> None:
    begins = {(OUTCOMES_TOPIC, 0): 0, (BROKER_EVENTS_TOPIC, 0): 7, (BROKER_EVENTS_TOPIC, 1): 7}
    finished = Finished({DETAILS: {f"{BROKER_EVENTS_TOPIC}-1": 9}})
    assert refill.unknown_stretches(begins, finished) == {(BROKER_EVENTS_TOPIC, 0): (0, 7)}
    finished = Finished({DETAILS: {f"{OUTCOMES_TOPIC}-0": 9}, FIRST: {f"{OUTCOMES_TOPIC}-0": 3}})
    assert refill.unknown_stretches({(OUTCOMES_TOPIC, 0): 5}, finished) == {
        (OUTCOMES_TOPIC, 0): (3, 5)
    }, "decisions are made of outcomes by the other query"


@pytest.mark.parametrize("at_once, piece_bytes", [(1, 1_000_000), (2, 1_000_000), (1_000, 1)])
def test_the_quarantine_is_read_in_pieces(
    begun: Begun, at_once: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many records, and of so many bytes."""
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(quarantine, "RECORDS_AT_ONCE", at_once)
    monkeypatch.setattr(refill, "RECORDS_AT_ONCE", at_once)
    log = links(5, late_at=1)
    landing = begun([*log, (BROKER_EVENTS_TOPIC, 0, 5, log[1][3]), (*log[0][:2], 6, log[1][3])])
    landing.catch_up()
    later_release.put_all(landing.schemas)
    landing.job.read_again_if_learned(None)
    assert offsets(landing, LINKS) == [*range(7)]


@pytest.mark.parametrize(
    "at_once, piece_bytes, pieces", [(2, 1_000_000, 4), (1_000, 1, 7), (1_000, 1_000_000, 1)]
)
def test_bronze_is_read_again_in_pieces(
    begun: Begun, at_once: int, piece_bytes: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(refill, "RECORDS_AT_ONCE", at_once)
    landing = begun(links(7, late_at=9))
    landing.take(FIRST, 7)
    found = list(refill.batches_of_bronze(landing.lake, {(BROKER_EVENTS_TOPIC, 0): (0, 7)}))
    assert len(found) == pieces
    assert [offset for rows in found for offset in rows["offset"].to_pylist()] == [*range(7)]
