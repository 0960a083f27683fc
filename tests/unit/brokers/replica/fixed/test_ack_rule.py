"""What a send waits for without controllers: RocketMQ's table, row by row."""

from __future__ import annotations

import pytest

from brokers.replica.fixed.ack_rule import FixedAckRule

END = 1_000
GAP = 100


def rule(**changes: object) -> FixedAckRule:
    fields: dict[str, object] = {"in_sync": 2, "min_in_sync": 1, "gap_bytes_max": GAP}
    return FixedAckRule(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("acked", "alive", "count"),
    [
        ([], None, 1),
        ([END], None, 2),
        ([END - GAP + 1], None, 2),
        ([END - GAP], None, 1),  # the gap itself is too much
        ([END, END, 0], None, 3),
        ([END, END], 2, 2),  # name servers know of two
        ([END, END], 5, 3),
        ([], 3, 1),
    ],
)
def test_who_is_in_sync(acked: list[int], alive: int | None, count: int) -> None:
    assert rule().in_sync_count(END, acked, alive) == count


@pytest.mark.parametrize(
    ("changes", "in_sync_now", "needed", "refused"),
    [
        # acting mode off: what is configured, and nothing is refused
        ({}, 1, 2, False),
        ({}, 3, 2, False),
        ({"in_sync": 1}, 1, 1, False),
        ({"in_sync": 3, "auto": True}, 1, 3, False),
        ({"in_sync": 3, "min_in_sync": 2}, 1, 3, False),
        # acting mode on: refused before it is written
        ({"counts_in_sync": True}, 1, 2, True),
        ({"counts_in_sync": True}, 2, 2, False),
        ({"counts_in_sync": True, "in_sync": 3}, 2, 3, True),
        # with auto as many as there are, and no fewer than the minimum
        ({"counts_in_sync": True, "in_sync": 3, "auto": True}, 1, 1, False),
        ({"counts_in_sync": True, "in_sync": 3, "auto": True}, 2, 2, False),
        ({"counts_in_sync": True, "in_sync": 3, "auto": True}, 5, 3, False),
        ({"counts_in_sync": True, "in_sync": 3, "auto": True, "min_in_sync": 2}, 1, 2, True),
        # ASYNC_MASTER
        ({"waits": False}, 1, 1, False),
        ({"waits": False, "counts_in_sync": True, "in_sync": 3}, 1, 1, False),
    ],
)
def test_how_many_copies_are_needed_and_when_a_put_is_refused(
    changes: dict[str, object], in_sync_now: int, needed: int, refused: bool
) -> None:
    one = rule(**changes)
    assert one.needed(in_sync_now) == needed
    assert (one.refusal(in_sync_now) is not None) == refused


@pytest.mark.parametrize(
    ("in_sync", "acked", "acknowledged"),
    [
        (1, [], END),
        (2, [], 0),
        (2, [400], 400),
        (2, [400, 700], 700),
        (3, [400, 700], 400),
        (3, [700], 0),
        (2, [END + 5], END),  # a slave cannot acknowledge what is not there
    ],
)
def test_how_far_the_log_is_acknowledged(in_sync: int, acked: list[int], acknowledged: int) -> None:
    assert rule(in_sync=in_sync).acknowledged(END, acked, 1) == acknowledged
