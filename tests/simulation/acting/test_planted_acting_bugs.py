"""Each hole that RocketMQ leaves here, dug again: worlds find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from brokers.acting import lock_quorum
from brokers.acting.core import ActingCore
from brokers.acting.escape import Escape
from brokers.acting.group_view import GroupView
from brokers.acting.holding_back import MasterSigns
from brokers.acting.messages import CouldNotAnswer, MemberAnswer, Members
from brokers.acting.pre_online import PreOnline
from brokers.acting.reverse_sync import Decision
from brokers.service.popping.matching import OpenPoints
from brokers.service.popping.records import Ack
from tests.simulation.acting import broker as shell
from tests.simulation.acting.returns import PLAYS, played
from tests.simulation.acting.world import World, Wrong
from tests.simulation.known_seeds import first_found

SEEDS_MAX = 40
Patch = pytest.MonkeyPatch


def no_way_back_for_the_expelled(patch: Patch) -> None:
    patch.setattr(ActingCore, "_expelled", lambda self, now_ms, replaced: self._register(now_ms))
    patch.setattr(ActingCore, "_looks_back", lambda self, now_ms: [])


def nobody_has_to_confirm(patch: Patch) -> None:
    patch.setattr(ActingCore, "_is_confirmed", lambda self, now_ms: True)


def no_answer_is_an_empty_group(patch: Patch) -> None:
    answered = GroupView.answered

    def wrong(self: GroupView, name: str, answer: MemberAnswer, asked_ms: int) -> None:
        empty = isinstance(answer, CouldNotAnswer)
        answered(self, name, Members({}) if empty else answer, asked_ms)

    patch.setattr(GroupView, "answered", wrong)
    an_empty_group_is_believed(patch)


def an_empty_group_is_believed(patch: Patch) -> None:
    def wrong(self: PreOnline) -> list[object]:
        self.outcome = (self._config.place.broker_id, self._config.place.address)
        return []

    patch.setattr(PreOnline, "_alone", wrong)


def nothing_is_taken(patch: Patch) -> None:
    patch.setattr(shell, "decide", lambda own, members: Decision())


def escape_gives_up(patch: Patch) -> None:
    waits = Escape._waits

    def wrong(self: Escape, item: object, why: str, now_ms: int, chance: float) -> object:
        found = waits(self, item, why, now_ms, chance)  # type: ignore[arg-type]
        if item.failures > 3:  # type: ignore[attr-defined]
            self._leave(item)  # type: ignore[arg-type]
        return found

    patch.setattr(Escape, "_waits", wrong)


def a_place_is_passed_before_its_message_is_done(patch: Patch) -> None:
    patch.setattr(Escape, "safe", lambda self, source, next_place: next_place)


def one_vote_is_enough(patch: Patch) -> None:
    patch.setattr(lock_quorum, "quorum_of", lambda total: 1)


def a_reviver_passes_what_is_not_decided(patch: Patch) -> None:
    patch.setattr(OpenPoints, "safe", lambda self, durable_offset: self.next_offset - 1)


def one_acknowledgement_ends_a_check_point(patch: Patch) -> None:
    ack = OpenPoints.ack

    def wrong(self: OpenPoints, one: Ack) -> bool:
        for known in self._by_key.get(one.key, ()):
            known.left.clear()
        return ack(self, one)

    patch.setattr(OpenPoints, "ack", wrong)


PLANTS: Mapping[str, tuple[Callable[[Patch], None], tuple[str, ...]]] = {
    "11.2-1 an expelled master goes on": (
        no_way_back_for_the_expelled, ("offset back", "place back")
    ),
    "11.2-1 nobody has to confirm": (nobody_has_to_confirm, ("two deliver", "place", "offset")),
    "11.2-3 escape gives up": (escape_gives_up, ("lost",)),
    "11.2-3 places move on failure": (a_place_is_passed_before_its_message_is_done, ("lost",)),
    "4.6 nothing is taken": (nothing_is_taken, ("offset", "place")),
    "5.2 one vote": (one_vote_is_enough, ("two owners",)),
    "a reviver passes on": (a_reviver_passes_what_is_not_decided, ("lost pops",)),
    "one acknowledgement for all": (one_acknowledgement_ends_a_check_point, ("lost pops",)),
}  # fmt: skip


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: Patch) -> None:
    plant, words = PLANTS[name]
    plant(monkeypatch)

    def broken(seed: int) -> str | None:
        try:
            World(seed).run()
        except Wrong as wrong:
            return str(wrong) if str(wrong).startswith(words) else None
        return None

    found = first_found(f"acting/{name}", range(SEEDS_MAX), broken)
    assert found, f"{name} was not found in {SEEDS_MAX} worlds"


def nobody_holds_back(patch: Patch) -> None:
    patch.setattr(ActingCore, "_yields", lambda self, now_ms: [])


def puts_under_way_are_not_waited_for(patch: Patch) -> None:
    patch.setattr(shell, "SETTLE_MS", 0)


def who_is_smaller_goes_online_at_once(patch: Patch) -> None:
    as_first = PreOnline._as_first

    def wrong(
        self: PreOnline, others: Mapping[int, str], now_ms: int, chance: float
    ) -> list[object]:
        if self._config.is_master:
            return list(as_first(self, others, now_ms, chance))
        self.outcome = (self._config.place.broker_id, self._config.place.address)
        return []

    patch.setattr(PreOnline, "_as_first", wrong)


def who_slept_does_not_look_back(patch: Patch) -> None:
    patch.setattr(ActingCore, "_looks_back", lambda self, now_ms: [])


def nobody_copies_from_who_acts(patch: Patch) -> None:
    patch.setattr(ActingCore, "_copy", lambda self, now_ms: [])


def a_master_gives_no_sign(patch: Patch) -> None:
    """Neither its link counts nor its word, which comes within the time of two calls."""
    patch.setattr(MasterSigns, "speaks", lambda self, now_ms: False)
    patch.setattr(MasterSigns, "delivers", lambda self, now_ms: False)


TWICE: Mapping[str, tuple[Callable[[Patch], None], str]] = {
    "nobody holds back": (nobody_holds_back, "the master returns"),
    "puts under way": (puts_under_way_are_not_waited_for, "the master returns"),
    "at once online": (who_is_smaller_goes_online_at_once, "the smaller slave returns"),
    "no look back": (who_slept_does_not_look_back, "the smaller slave wakes"),
    "no sign": (a_master_gives_no_sign, "name servers disagree"),
    "no copy": (nobody_copies_from_who_acts, "the next slave acts"),
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", TWICE)
def test_what_makes_messages_come_twice_is_found(name: str, monkeypatch: Patch) -> None:
    plant, play = TWICE[name]
    plant(monkeypatch)

    def broken(seed: int) -> str | None:
        try:
            played(seed, PLAYS[play])
        except Wrong as wrong:
            assert str(wrong).startswith(("twice", "two deliver")), wrong
            return str(wrong)
        return None

    found = first_found(f"acting, twice/{name}", range(SEEDS_MAX), broken)
    assert found, f"{name} was not found in {SEEDS_MAX} plays"


def both_begin_anew() -> tuple[int, int]:
    """Name servers and master start again while a slave acts; (the master's offset when it is
    online, the slave's before).
    """
    world = World(1)
    for one in world.brokers:
        one.start()
    world.spend(20_000)
    master, slave = world.brokers[:2]
    master.stop()
    world.spend(40_000)
    had = slave.offset
    for server in world.name_servers:
        server.restart()
    master.start()
    while master.core.isolated:
        world.spend(100)
    return master.offset, had


def test_a_master_that_begins_with_its_name_servers_takes_over_first() -> None:
    offset, had = both_begin_anew()
    assert offset >= had > 0


@pytest.mark.parametrize("plant", [no_answer_is_an_empty_group, an_empty_group_is_believed])
def test_hole_10_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    offset, had = both_begin_anew()
    assert offset < had
