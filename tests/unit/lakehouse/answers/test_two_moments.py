import pytest

from lakehouse.answers.state_at import state_at
from lakehouse.answers.two_moments import Moment, Reversed, diff_between
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables.lake import Lake
from tests.support.control_history import seen, with_master
from tests.support.judged_history import sound_history
from tests.support.landed_log import BEGAN_MS, append_to_bronze, command_records, land

RECORDS = sound_history().records
LAST = len(RECORDS) - 1


def test_the_ends_are_the_states_of_these_moments(lake: Lake) -> None:
    land(lake, command_records(RECORDS))
    for first in (0, 3, LAST):
        model = diff_between(lake, Moment(first), Moment())
        assert model["from"]["digest"] == state_at(lake, offset=first)["digest"]
        assert model["to"]["digest"] == state_at(lake)["digest"]
        assert model["commands"] == LAST - first


def test_a_moment_is_an_offset_or_a_time(lake: Lake) -> None:
    """The log took record n n seconds after the beginning."""
    past = with_master(1, 2, 3)
    before = len(past.records) - 1
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    land(lake, command_records(past.records))
    by_offset = diff_between(lake, Moment(before), Moment(before + 1))
    by_time = diff_between(
        lake, Moment(at_ms=BEGAN_MS + 1000 * before + 999), Moment(at_ms=BEGAN_MS + 10**9)
    )
    assert by_time == by_offset
    assert by_offset["sets"][0]["decisions"][0]["at_ms"] == BEGAN_MS + 1000 * (before + 1)


def test_what_cannot_be_answered_is_said_so(lake: Lake) -> None:
    land(lake, command_records(RECORDS))
    with pytest.raises(NotLanded, match=f"command {LAST + 5} has not landed: last {LAST}"):
        diff_between(lake, Moment(0), Moment(LAST + 5))
    with pytest.raises(NotLanded, match="no command had been taken"):
        diff_between(lake, Moment(at_ms=BEGAN_MS - 1), Moment())
    with pytest.raises(Reversed, match="command 4, the second command 3"):
        diff_between(lake, Moment(4), Moment(3))


def test_nothing_landed_and_a_hole_are_said_so(lake: Lake) -> None:
    land(lake, [])
    with pytest.raises(NotLanded, match="last none"):
        diff_between(lake, Moment(), Moment())
    records = command_records(RECORDS)
    append_to_bronze(lake, records[:4])
    append_to_bronze(lake, records[6:])
    with pytest.raises(LakehouseError, match="offset 6|offset 4"):
        diff_between(lake, Moment(1), Moment())
    with pytest.raises(LakehouseError, match="folded at offset"):
        diff_between(lake, Moment(7), Moment())
