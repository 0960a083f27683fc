"""Where two logs agree, row by row (PROTOCOL 10.6)."""

from __future__ import annotations

from itertools import count

import pytest

from brokers.majority.quorum.search import Found, Search, Seen

BEGIN, END = 20, 60

# What was compared, whether it is the same, the follower's begin and end: what follows.
ROWS = {
    "the same, at its end": (50, True, 0, 50, (Found.APPEND, 50)),
    "the same, and it goes on": (60, True, 0, 70, (Found.TRUNCATE, 60)),
    "it ends before the leader begins": (60, False, 0, 10, (Found.TRUNCATE, BEGIN)),
    "it is empty": (60, False, -1, -1, (Found.TRUNCATE, BEGIN)),
    "it begins behind the leader's end": (60, False, 70, 90, (Found.TRUNCATE, BEGIN)),
    "compared before its begin": (30, False, 40, 50, (Found.TRUNCATE, BEGIN)),
    "compared behind its end": (60, False, 0, 50, (Found.LOOK, 50)),
    "another entry there": (50, False, 0, 50, (Found.LOOK, 35)),
    "another entry at the leader's begin": (20, False, 0, 50, (Found.TRUNCATE, BEGIN)),
    "another entry at the follower's begin": (30, False, 30, 50, (Found.TRUNCATE, BEGIN)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_what_follows_from_an_answer(name: str) -> None:
    at, same, begin, end, expected = ROWS[name]
    search = Search()
    search.index = at
    assert search.look_at(BEGIN, END) == at
    assert search.saw(Seen(same, begin, end), BEGIN, END) == expected


@pytest.mark.parametrize("index", [-1, 19, 61])
def test_it_begins_with_the_leaders_last_entry(index: int) -> None:
    search = Search()
    search.index = index
    assert search.look_at(BEGIN, END) == END


def rounds(leader: list[int], follower: list[int], hints: bool) -> tuple[Found, int, int]:
    """Play it with two logs of terms from index 0: (what is done, where, after how many rounds)."""
    search = Search()
    for number in count(1):
        at = search.look_at(0, len(leader) - 1)
        same = at < len(follower) and leader[at] == follower[at]
        jump = None
        if hints and not same and at < len(follower):
            first = follower.index(follower[at])
            have = [i for i in range(at) if leader[i] == follower[at] and i >= first]
            jump = have[-1] if have else first - 1
        end = len(follower) - 1
        found, index = search.saw(Seen(same, 0 if follower else -1, end, jump), 0, len(leader) - 1)
        if found is not Found.LOOK:
            return found, index, number
    raise AssertionError


LONG = 1_000
LOGS = {
    "equal": ([1] * LONG, [1] * LONG, (Found.APPEND, LONG - 1)),
    "behind": ([1] * LONG, [1] * 400, (Found.APPEND, 399)),
    "longer": ([1] * 400, [1] * LONG, (Found.TRUNCATE, 399)),
    "the end of an old leader": (
        [1] * 400 + [3] * 600, [1] * 400 + [2] * 500, (Found.TRUNCATE, 399),
    ),
    "more of the term before": ([1] * 400 + [3], [1] * LONG, (Found.TRUNCATE, 399)),
    "less of the term before": ([1] * 400 + [3], [1] * 300 + [2] * 50, (Found.TRUNCATE, 299)),
    "nothing in common": ([2] * LONG, [1] * LONG, (Found.TRUNCATE, 0)),
    "empty": ([1] * LONG, [], (Found.TRUNCATE, 0)),
}  # fmt: skip


@pytest.mark.parametrize("hints", [True, False], ids=["ours", "Java's"])
@pytest.mark.parametrize("name", LOGS)
def test_the_place_is_found_in_few_rounds(name: str, hints: bool) -> None:
    leader, follower, expected = LOGS[name]
    *found, took = rounds(leader, follower, hints)
    assert tuple(found) == expected
    assert took <= (4 if hints else 13)
