"""Pops that wait: whom a message wakes, who is out of time, limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.service.popping import waiting_pops
from brokers.service.popping.waiting_pops import Waiting, WaitingPops


def one(
    queue_id: int = -1,
    deadline_ms: int = 100,
    group: str = "g",
    topic: str = "T",
    connection_id: int = 1,
) -> Waiting:
    return Waiting((topic, group, queue_id), deadline_ms, connection_id, None)


def everybody(_: Waiting) -> bool:
    return True


def test_68_a_message_wakes_one_of_all_queues_and_one_of_its_own_for_each_group() -> None:
    pops = WaitingPops()
    all_g, own_g, other_g, all_h = one(), one(0), one(1), one(group="h")
    for each in (all_g, own_g, other_g, all_h):
        assert pops.hold(each)
    assert pops.watches("T") and not pops.watches("U")
    assert set(map(id, pops.came("T", 0, everybody))) == {id(all_g), id(own_g), id(all_h)}
    assert pops.count == 1 and pops.came("T", 0, everybody) == []


def test_68_the_one_that_expires_first_is_woken_and_of_notifications_the_last() -> None:
    for pops, expected in ((WaitingPops(), 0), (WaitingPops(last_first=True), 2)):
        waiting = [one(deadline_ms=deadline) for deadline in (50, 70, 90)]
        for each in waiting:
            pops.hold(each)
        assert pops.came("T", 0, everybody) == [waiting[expected]]


@pytest.mark.parametrize("name", ["%RETRY%g_T", "%RETRY%g+T"])
@pytest.mark.parametrize("queue_id", [-1, 3])
def test_68_a_copy_wakes_whoever_waits_for_its_topic(name: str, queue_id: int) -> None:
    pops = WaitingPops()
    waiting = one(queue_id)
    pops.hold(waiting)
    pops.hold(one(group="h"))
    assert pops.watches(name) and pops.came(name, 0, everybody) == [waiting]
    assert not pops.watches(name) and pops.came(name, 0, everybody) == []


def test_68_only_those_whose_tags_it_has_are_woken() -> None:
    pops = WaitingPops()
    first, second = one(deadline_ms=50), one(deadline_ms=60)
    pops.hold(first)
    pops.hold(second)
    assert pops.came("T", 0, lambda each: each is second) == [second]


def test_what_is_left_goes_to_the_next_that_waits_for_that_queue() -> None:
    pops = WaitingPops()
    everything, own = one(), one(2)
    pops.hold(everything)
    pops.hold(own)
    assert pops.more("T", "g", 2) == [own] and pops.more("T", "g", 2) == [everything]


def test_67_time_and_connections_end_a_wait() -> None:
    pops = WaitingPops()
    early, late, gone = one(deadline_ms=50), one(deadline_ms=60), one(connection_id=2)
    for each in (late, early, gone):
        pops.hold(each)
    pops.connection_closed(2)
    assert not gone.waits and pops.expired(49) == []
    assert pops.expired(55) == [early] and pops.release_all() == [late] and pops.count == 0
    pops.hold(late)
    assert pops.expired(60) == [late] and pops.expired(100) == []


def test_67_more_than_so_many_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_pops, "WAITING_PER_KEY_MAX", 2)
    pops = WaitingPops()
    assert [pops.hold(one()) for _ in range(4)] == [True, True, True, False]
    monkeypatch.setattr(waiting_pops, "WAITING_MAX", 3)
    assert not pops.hold(one(topic="U"))


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(-1, 2), st.sampled_from("gh"), st.integers(1, 3)),
        max_size=40,
    )
)
def test_nothing_of_those_that_left_is_kept(steps: list[tuple[int, int, str, int]]) -> None:
    pops = WaitingPops()
    for what, queue_id, group, number in steps:
        if what < 3:
            pops.hold(one(queue_id, number * 10, group, connection_id=number))
        elif what == 3:
            pops.came("T", queue_id, everybody)
        elif what == 4:
            pops.expired(number * 10)
        else:
            pops.connection_closed(number)
    pops.release_all()
    assert pops.count == 0 and not (pops._keys or pops._groups or pops._retries)
    assert not pops._of_connections and not pops.expired(1_000)
