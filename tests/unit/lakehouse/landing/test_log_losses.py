"""Records that retention takes before they land: noted and passed by where they may be lost, an
error with the way out where not; whatever is killed, and however often it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.landing.finished import DETAILS, FIRST
from lakehouse.landing.log_losses import Gap, gap_of, to_note
from lakehouse.landing.status import read_status
from lakehouse.tables import delta
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import NOTHING_LOST, Loss, Losses, read_losses
from lakehouse.tables.specs import ACCEPTED, BRONZE, BY_NAME, RETENTION
from tests.support import later_release
from tests.support.control_history import with_master
from tests.support.examples import some
from tests.support.landed_log import Record, command_records, outcome_records
from tests.support.landing_in_memory import DataLoss, Killed, Landing
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.landing.test_late_records import link, links

EVENTS, OTHER = (BROKER_EVENTS_TOPIC, 0), (BROKER_EVENTS_TOPIC, 3)
COMMANDS = (COMMANDS_TOPIC, 0)
LINKS = BY_NAME["silver/ha_link_up"]
Begun = Callable[[list[Record]], Landing]


@pytest.fixture
def begun(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Begun:
    """A job over a log."""
    return lambda log: Landing(lake, tmp_path_factory.mktemp("schemas"), log, monkeypatch)


def plain_links(count: int, partition: int = 0) -> list[Record]:
    return [(BROKER_EVENTS_TOPIC, partition, number, link(number)) for number in range(count)]


def landed(landing: Landing, place: tuple[str, int] = EVENTS) -> list[int]:
    filters = [("topic", "=", place[0]), ("partition", "=", place[1])]
    rows = delta.read(landing.lake, BRONZE, columns=["offset"], filters=filters)
    return rows["offset"].to_pylist()


def in_silver(landing: Landing) -> list[int]:
    rows = delta.read(landing.lake, LINKS, columns=["log_offset"])
    return sorted(rows["log_offset"].to_pylist())


def noted(landing: Landing) -> list[tuple[int, int]]:
    return [(one.from_offset, one.to_offset) for one in read_losses(landing.lake).noted]


def again(landing: Landing, begins: int | None = None) -> None:
    """The job starts anew, over a log that begins there by now."""
    if begins is not None:
        landing.first_held[EVENTS] = begins
    landing.begin()


def test_a_gap_of_broker_events_is_noted_once_and_landing_goes_on_behind_it(begun: Begun) -> None:
    landing = begun(plain_links(10))
    landing.take(FIRST, 3)
    landing.take(DETAILS, 3)
    landing.end()
    again(landing, begins=7)
    landing.catch_up()
    assert landed(landing) == in_silver(landing) == [0, 1, 2, 7, 8, 9]
    assert noted(landing) == [(3, 6)]
    for _ in range(2):
        landing.end()
        again(landing)
        landing.catch_up()
    assert noted(landing) == [(3, 6)] and landed(landing) == [0, 1, 2, 7, 8, 9]
    status = read_status(Path(landing.lake.root))
    assert status is not None and status.lost_records == {f"{BROKER_EVENTS_TOPIC}-0": 4}


@pytest.mark.parametrize("lost", [(), (FIRST,), (DETAILS,), (FIRST, DETAILS)], ids=str)
def test_lost_checkpoints_beside_the_gap_change_nothing(
    begun: Begun, lost: tuple[str, ...]
) -> None:
    """What bronze has and silver lacks is made from bronze, and is no loss."""
    landing = begun(plain_links(10))
    landing.take(FIRST, 5)
    landing.take(DETAILS, 2)
    landing.end()
    for query in lost:
        landing.checkpoints.pop(query)
    again(landing, begins=7)
    landing.catch_up()
    assert landed(landing) == in_silver(landing) == [*range(5), 7, 8, 9]
    assert noted(landing) == [(5, 6)]


def test_retention_that_took_only_what_has_landed_is_no_loss(begun: Begun) -> None:
    landing = begun(plain_links(10))
    landing.take(FIRST, 5)
    landing.take(DETAILS, 2)
    landing.end()
    again(landing, begins=5)
    landing.catch_up()
    assert landed(landing) == in_silver(landing) == [*range(10)] and not noted(landing)


def test_a_log_that_was_emptied_altogether_is_noted_to_its_end(begun: Begun) -> None:
    landing = begun(plain_links(10))
    landing.take(FIRST, 3)
    landing.take(DETAILS, 3)
    landing.end()
    again(landing, begins=10)
    landing.catch_up()
    landing.log += [(*EVENTS, 10, link(10))]
    landing.catch_up()
    assert (landed(landing), noted(landing)) == ([0, 1, 2, 10], [(3, 9)])


def test_what_was_gone_before_the_lake_began_is_noted_too(begun: Begun) -> None:
    landing = begun(plain_links(2))
    landing.log = plain_links(10)
    again(landing, begins=4)
    landing.catch_up()
    assert (landed(landing), noted(landing)) == ([*range(4, 10)], [(0, 3)])


@pytest.mark.parametrize("appends", some(range(4)))
def test_a_kill_anywhere_around_the_row_leaves_one_row_and_every_record(
    begun: Begun, appends: int
) -> None:
    """0: the row is not there yet; 1: it is, and nothing behind it; then within the batches."""
    landing = begun(plain_links(10))
    landing.take(FIRST, 3)
    landing.take(DETAILS, 2)
    landing.end()
    landing.appends_left = appends
    with pytest.raises(Killed):
        again(landing, begins=7)
        landing.catch_up()
        raise Killed  # Fewer appends than it lives for.
    landing.appends_left = None
    again(landing)
    landing.catch_up()
    assert landed(landing) == in_silver(landing) == [0, 1, 2, 7, 8, 9]
    assert noted(landing) == [(3, 6)]


def test_a_second_gap_while_the_first_is_noted_is_a_row_of_its_own(begun: Begun) -> None:
    landing = begun(plain_links(10))
    landing.take(FIRST, 3)
    landing.take(DETAILS, 3)
    landing.end()

    def more(landing: Landing) -> None:
        landing.first_held[EVENTS] = 8

    landing.meanwhile = more
    again(landing, begins=6)
    with pytest.raises(DataLoss):
        landing.take(FIRST, 10)
    landing.meanwhile = None
    landing.end()
    again(landing)
    landing.catch_up()
    assert noted(landing) == [(3, 5), (6, 7)] and landed(landing) == [0, 1, 2, 8, 9]


@pytest.mark.parametrize("appends", some(range(5)))
def test_a_kill_and_a_second_gap_together(begun: Begun, appends: int) -> None:
    landing = begun([*plain_links(10), *plain_links(10, 3)])
    landing.take(FIRST, 3)
    landing.take(DETAILS, 2)
    landing.end()
    landing.appends_left = appends
    with pytest.raises(Killed):
        again(landing, begins=6)
        landing.catch_up()
        raise Killed
    landing.appends_left = None
    landing.first_held[OTHER] = 5
    again(landing, begins=8)
    landing.catch_up()
    for place in (EVENTS, OTHER):
        missing = {*range(10)} - {*landed(landing, place)}
        rows = [one for one in read_losses(landing.lake).noted if one.place == place]
        assert missing == {
            offset for one in rows for offset in range(one.from_offset, one.to_offset + 1)
        }
        assert sum(one.records for one in rows) == len(missing), "each offset once"


def test_a_gap_beside_a_late_schema(begun: Begun) -> None:
    """5 cannot be read when it comes; the details have not gone by when the gap is found."""
    landing = begun(links(10, late_at=4))
    landing.take(FIRST, 5)
    landing.take(DETAILS, 3)
    landing.end()
    again(landing, begins=7)
    assert in_silver(landing) == [*range(4)], "3 was made from bronze, 4 is in quarantine"
    landing.catch_up()
    later_release.put_all(landing.schemas)
    landing.job.read_again_if_learned(None)
    assert in_silver(landing) == landed(landing) == [*range(5), 7, 8, 9]
    assert noted(landing) == [(5, 6)]


@pytest.mark.parametrize("is_known", [False, True], ids=["kill", "kill and schema"])
def test_a_gap_a_late_schema_and_a_kill_behind_the_row(begun: Begun, is_known: bool) -> None:
    landing = begun(links(10, late_at=4))
    landing.take(FIRST, 5)
    landing.take(DETAILS, 3)
    landing.end()
    landing.appends_left = 1
    with pytest.raises(Killed):
        again(landing, begins=7)
    assert noted(landing) == [(5, 6)]
    landing.appends_left = None
    if is_known:
        later_release.put_all(landing.schemas)
    again(landing)
    landing.catch_up()
    later_release.put_all(landing.schemas)
    landing.job.read_again_if_learned(None)
    assert in_silver(landing) == landed(landing) == [*range(5), 7, 8, 9]
    assert noted(landing) == [(5, 6)]


def of_commands() -> list[Record]:
    history = with_master(1, 2, 3).records
    return [*command_records(history), *outcome_records(history), *plain_links(4)]


@pytest.mark.parametrize(
    ("topic", "consequence"),
    [
        (COMMANDS_TOPIC, "gold, answers and proofs end before command 2"),
        (OUTCOMES_TOPIC, "what was published of their commands stays unknown"),
    ],
)
def test_a_gap_in_what_is_kept_for_ever_stops_landing_with_both_ways_out(
    begun: Begun, topic: str, consequence: str
) -> None:
    landing = begun(of_commands())
    landing.take(FIRST, 2)
    landing.take(DETAILS, 2)
    landing.end()
    landing.first_held |= {(topic, 0): 4, EVENTS: 3}
    with pytest.raises(LandingGap) as told:
        landing.begin()
    assert str(told.value) == (
        f"{topic}-0: records 2 to 3 have not landed and the log no longer has them: make the topic "
        "anew from what landed ('regent controller rebuild --from-delta TABLES'), or go on without "
        f"them ('regent land … --accept-loss {topic}/0:2-3'): then {consequence}"
    )
    assert not noted(landing), "nothing is noted by a job that does not start"

    landing.accepted = [gap_of(f"{topic}/0:2-3")]
    landing.appends_left = 1
    with pytest.raises(Killed):
        landing.begin()
        landing.catch_up()
    landing.appends_left = None
    for _ in range(2):
        landing.begin()  # The flag may stay.
        landing.catch_up()
        landing.end()
    assert [
        (one.place, one.from_offset, one.to_offset, one.why)
        for one in (read_losses(landing.lake).noted)
    ] == [(EVENTS, 2, 2, RETENTION), ((topic, 0), 2, 3, ACCEPTED)]
    if topic == OUTCOMES_TOPIC:
        commands = len(landed(landing, COMMANDS))
        assert bring_up(job_of(landing.lake)) == commands, "gold goes on"
    else:
        with pytest.raises(LakehouseError, match="command 2 never landed: gold ends before it"):
            bring_up(job_of(landing.lake))
    assert not {2, 3} & {*landed(landing, (topic, 0))} and 4 in landed(landing, (topic, 0))


GAP = Gap(*COMMANDS, 2, 3)


@pytest.mark.parametrize(
    "other", ["regent.commands/0:2-4", "regent.commands/0:1-3", "regent.outcomes/0:2-3"]
)
def test_another_gap_than_the_named_one_is_not_accepted(other: str) -> None:
    with pytest.raises(LandingGap, match=f"records 2 to 3 .* --accept-loss {other} is another gap"):
        to_note({COMMANDS: 4}, HighWater({COMMANDS: 1}), NOTHING_LOST, [gap_of(other)], 0)
    with pytest.raises(LandingGap, match="records 2 to 3 "):
        to_note({COMMANDS: 4}, HighWater({COMMANDS: 1}), NOTHING_LOST, [], 0)


def test_a_gap_that_is_not_there_cannot_be_accepted_beforehand() -> None:
    with pytest.raises(LakehouseError, match="the log has no such gap, and nothing was noted"):
        to_note({COMMANDS: 0}, HighWater({COMMANDS: 1}), NOTHING_LOST, [GAP], 0)
    with pytest.raises(LakehouseError, match="no such gap"):
        to_note({COMMANDS: 4, EVENTS: 7}, HighWater({COMMANDS: 3}), NOTHING_LOST, [GAP], 0)
    noted = Losses([Loss(*COMMANDS, 2, 3, ACCEPTED)])
    assert to_note({COMMANDS: 4}, HighWater({COMMANDS: 1}), noted, [GAP], 0) == []


def test_behind_an_accepted_gap_a_new_one_has_to_be_named_by_its_own_offsets() -> None:
    noted, landed = Losses([Loss(*COMMANDS, 2, 3, ACCEPTED)]), HighWater({COMMANDS: 1})
    with pytest.raises(LandingGap, match="records 4 to 6 "):
        to_note({COMMANDS: 7}, landed, noted, [GAP], 0)
    new = to_note({COMMANDS: 7}, landed, noted, [GAP, Gap(*COMMANDS, 4, 6)], 5)
    assert new == [Loss(*COMMANDS, 4, 6, ACCEPTED, 5)]


@pytest.mark.parametrize(
    "text",
    ["", "regent.commands", "regent.commands/0:3-2", "regent.commands-0:2-3", "a/0:1", "a/b:1-2"],
)
def test_what_names_no_gap_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TOPIC/PARTITION:FROM-TO"):
        gap_of(text)
    assert str(gap_of(str(GAP))) == str(GAP)
