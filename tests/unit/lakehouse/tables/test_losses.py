"""What is noted as lost: which offsets that covers, and what is read again of it."""

from __future__ import annotations

import pytest

from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import NOTHING_LOST, Loss, Losses, loss_rows, read_losses
from lakehouse.tables.specs import ACCEPTED, LOSSES

PLACE, OTHER = ("regent.broker-events", 2), ("regent.broker-events", 1)
NOTED = Losses(
    [Loss(*PLACE, 20, 29), Loss(*PLACE, 5, 9), Loss(*PLACE, 10, 10), Loss(*OTHER, 0, 99)]
)


@pytest.mark.parametrize(
    ("offset", "behind"), [(4, 4), (5, 11), (9, 11), (10, 11), (11, 11), (29, 30), (30, 30)]
)
def test_what_is_not_lost_begins_behind_losses_that_lie_beside_one_another(
    offset: int, behind: int
) -> None:
    assert NOTED.behind(PLACE, offset) == behind


@pytest.mark.parametrize(
    ("stretch", "left"),
    [
        ((5, 9), []),
        ((0, 40), [(0, 4), (11, 19), (30, 40)]),
        ((7, 24), [(11, 19)]),
        ((12, 14), [(12, 14)]),
        ((9, 8), []),
        ((31, 40), [(31, 40)]),
    ],
)
def test_of_a_stretch_is_left_what_is_not_noted(
    stretch: tuple[int, int], left: list[tuple[int, int]]
) -> None:
    assert list(NOTED.left_of(PLACE, *stretch)) == left


def test_a_loss_is_missing_until_all_of_it_has_landed_after_all() -> None:
    def missing(*holes: tuple[int, int], end: int) -> list[int]:
        landed = {PLACE: (holes, end), OTHER: ((), 100)}
        return [one.from_offset for one in NOTED.missing(landed)]

    assert missing((5, 10), (20, 29), end=40) == [5, 10, 20]
    assert missing((9, 9), (11, 19), end=40) == [5]
    assert missing(end=29) == [20] and missing(end=30) == []
    assert len(NOTED.missing({})) == 4, "nothing has landed"


def test_lost_records_are_counted_by_partition() -> None:
    assert NOTED.records() == {"regent.broker-events-1": 100, "regent.broker-events-2": 16}


def test_rows_are_read_as_they_were_noted_each_clusters_own(lake: Lake) -> None:
    assert read_losses(lake) is NOTHING_LOST, "no table yet"
    delta.ensure_table(lake, LOSSES)
    noted = (Loss(*PLACE, 5, 9, found_ms=1_764_107_000_123), Loss(*PLACE, 20, 20, ACCEPTED, 1_000))
    for own, losses in ((lake, noted), (lake.of("another"), noted[:1])):
        tables = delta.OpenTables(own)
        tables.append(LOSSES, loss_rows(str(own.cluster_id), losses))
    assert read_losses(lake).noted == noted
    assert read_losses(lake.of("another")).noted == noted[:1]


def test_a_loss_is_said_in_one_line() -> None:
    assert Loss(*PLACE, 5, 9, found_ms=1_000).said == (
        "regent.broker-events-2 offsets 5 to 9 never landed: the log had dropped them (found "
        "1970-01-01 00:00:01.000 UTC)"
    )
    assert "offset 5 never landed: the log lost them, and an operator accepted that" in (
        Loss(*PLACE, 5, 5, ACCEPTED).said
    )
