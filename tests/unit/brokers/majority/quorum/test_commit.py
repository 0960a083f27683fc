"""What is committed, row by row (PROTOCOL 10.7)."""

from __future__ import annotations

import pytest

from brokers.majority.quorum.commit import droppable, follower_commits, leader_commits, quorum_index
from tests.support.majority_member import log_of

LOG = log_of(1, 1, 2, 2, 4, 4)


@pytest.mark.parametrize(
    ("held", "index"),
    [
        ((7,), 7),
        ((7, 5), 5),
        ((7, 5, 6), 6),
        ((7, -1, 6), 6),
        ((9, 8, 7, 6), 7),
        ((9, 1, 8, 2, 7), 7),
        ((-1, -1, 9), -1),
        ((1 << 40, -1, (1 << 40) + 1), 1 << 40),
    ],
)
def test_the_largest_index_that_a_majority_holds(held: tuple[int, ...], index: int) -> None:
    assert quorum_index(held) == index


LEADER = {
    "an entry of its term": ((5, 5, 1), 4, 1, 5),
    "an entry of an older term on a majority": ((3, 3, 3), 4, 1, 1),
    "an older one with one of its term behind": ((5, 4, 3), 4, 1, 4),
    "nothing new": ((5, 5, 1), 4, 5, 5),
    "less than is committed": ((2, 2, 2), 4, 5, 5),
    "nobody holds anything": ((-1, -1, -1), 4, -1, -1),
    "more than it has itself": ((9, 9, 5), 4, 1, 5),
}


@pytest.mark.parametrize("name", LEADER)
def test_a_row_of_the_leaders_counting(name: str) -> None:
    held, term, committed, expected = LEADER[name]
    assert leader_commits(LOG, held, term, committed) == expected


# Told; up to where the log is the leader's; the leader's term; committed; whether the leader
# counts its own entries only.
FOLLOWER = {
    "as told": (3, 5, 4, 1, True, 3),
    "not beyond what is the leader's": (5, 3, 4, 1, True, 3),
    "not beyond its own end": (9, 9, 4, 1, True, 5),
    "never back": (1, 5, 4, 3, True, 3),
    "of Java, an entry of its term": (4, 5, 4, 1, False, 4),
    "of Java, an older entry": (3, 5, 4, 1, False, 1),
}


@pytest.mark.parametrize("name", FOLLOWER)
def test_a_row_of_the_followers_word(name: str) -> None:
    told, same_to, term, committed, counts, expected = FOLLOWER[name]
    assert follower_commits(LOG, told, same_to, term, committed, counts) == expected


@pytest.mark.parametrize(
    ("applied", "held", "below"),
    [(5, (), 5), (5, (7, 6, 6), 5), (5, (7, 3, 6), 3), (5, (7, -1, 6), 5), (-1, (), -1)],
)
def test_what_may_be_cleaned(applied: int, held: tuple[int, ...], below: int) -> None:
    assert droppable(LOG, applied, held) == below
