"""What a check keeps comes back as it was, for its cluster; what cannot be gone on from is as if it
were not there.
"""

import pytest
from msgspec.structs import replace

from lakehouse.invariants import kept
from lakehouse.invariants.alarms import ALARMS, of_gap
from lakehouse.invariants.kept import Checked, alarms, keep_alarms, keep_check, last_check
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake

DONE = Checked({"t-0": 7}, {"t-0": [(2, 3)]}, 6, 5, 4, 1, {"epochs_only_grow": 2})
HOLE = replace(of_gap("t", 0, 2, 3), first_seen_ms=1_767_225_600_123)


def test_how_far_a_check_came(lake: Lake) -> None:
    assert last_check(lake) is None
    keep_check(lake, DONE, 1_000)
    assert last_check(lake) == DONE
    keep_check(lake, replace(DONE, judged=9), 2_000)
    assert last_check(lake) == replace(DONE, judged=9)


def test_alarms_to_the_millisecond(lake: Lake) -> None:
    assert alarms(lake) == []
    cleared = replace(HOLE, offset=9, cleared_ms=1_767_225_600_999)
    keep_alarms(lake, [HOLE, cleared])
    assert set(alarms(lake)) == {HOLE, cleared}
    keep_alarms(lake, [HOLE])
    assert alarms(lake) == [HOLE]
    keep_alarms(lake, [])
    assert alarms(lake) == []


def test_each_cluster_has_its_own(lake: Lake) -> None:
    other = lake.of("it's another's")
    for one in (lake, other):
        keep_alarms(one, [HOLE])
        keep_check(one, DONE, 1_000)
    keep_alarms(lake, [])
    keep_check(other, replace(DONE, judged=9), 2_000)
    assert (alarms(lake), alarms(other)) == ([], [HOLE])
    assert (last_check(lake), last_check(other)) == (DONE, replace(DONE, judged=9))


def test_what_another_release_kept_is_not_gone_on_from(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (
        replace(DONE, format=99),
        replace(DONE, invariants=("another",)),
        replace(DONE, carried=b"[]"),
    ):
        keep_check(lake, other, 1_000)
        assert last_check(lake) is None
    keep_check(lake, DONE, 1_000)
    monkeypatch.setattr(kept, "INVARIANTS", ())
    assert last_check(lake) is None


def test_after_a_check_without_an_alarm_the_table_of_alarms_is_there_and_empty(lake: Lake) -> None:
    keep_check(lake, DONE, 1_000)
    assert read(lake, ALARMS).num_rows == 0
