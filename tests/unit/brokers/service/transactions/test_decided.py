"""Which halves are decided, and from where a successor looks."""

import random

import pytest

from brokers.service.transactions.decided import Decided, Decision, OffsetSet


@pytest.mark.parametrize("seed", range(20))
def test_an_offset_set_is_a_set(seed: int) -> None:
    chance = random.Random(seed)
    held, plain = OffsetSet(), set[int]()
    for _ in range(300):
        offset = chance.randrange(120)
        held.add(offset)
        plain.add(offset)
        if chance.random() < 0.02:
            low = chance.randrange(120)
            held.drop_below(low)
            plain = {one for one in plain if one >= low}
        assert [one for one in range(121) if one in held] == sorted(plain)
        open_ = chance.randrange(121)
        assert held.behind(open_) == next(n for n in range(open_, 300) if n not in plain)


def test_an_offset_set_keeps_stretches_and_not_offsets() -> None:
    held = OffsetSet()
    for offset in [*range(0, 1000, 2), *range(1, 1000, 2)]:
        held.add(offset)
    assert held.stretches == 1


def test_55_places_move_over_decided_halves_and_never_over_an_open_one() -> None:
    decided = Decided(0, 0)
    decided.read(0, 100, [0, 2])
    assert decided.settle(99) == (0, 0), "the record is not durable"
    assert decided.settle(100) == (1, 0), "op record 0 still names 2, behind the open 1"
    decided.read(1, 200, [1])
    assert decided.settle(200) == (3, 2)


def test_a_decision_counts_here_at_once_and_for_others_when_its_record_is_read() -> None:
    decided = Decided(5, 0)
    decided.note(5, Decision.COMMITTED)
    assert decided.is_decided(5) and decided.is_decided(4) and not decided.is_decided(6)
    assert decided.next_open(0) == 6
    assert decided.settle(1 << 40) == (5, 0)


def test_an_op_record_of_halves_in_front_is_done() -> None:
    decided = Decided(10, 3)
    decided.read(3, 50, [1, 9])
    decided.read(4, 60, [])
    decided.read(5, 70, [11])
    assert decided.settle(70) == (10, 5)


def test_49_the_newest_copy_stands_for_a_half() -> None:
    decided = Decided(0, 0)
    decided.copied(0, 4)
    decided.copied(4, 9)
    assert (decided.newest(0), decided.newest(4), decided.newest(9)) == (9, 9, 9)
    assert decided.how(4) is Decision.COPIED and not decided.is_decided(9)


def test_a_successor_knows_what_ended_a_while_ago_and_not_what_was_copied() -> None:
    decided = Decided(10, 5, 3)
    decided.read(3, 50, [8])
    decided.read(4, 60, [9], ended=False)
    assert decided.settle(60) == (10, 5)
    assert (decided.how(8), decided.how(9)) == (Decision.ENDED, None)
    assert decided.is_decided(8) and decided.is_decided(9)


def test_halves_that_left_the_log_are_over() -> None:
    decided = Decided(0, 0)
    decided.read(0, 10, [7])
    decided.missing_below(7)
    assert decided.settle(10) == (8, 1)
