"""Bugs of background services, planted by these tests; the worlds of services must find each.

Each bug is a patch of one product function. A found seed is run once more without the patch: then
every promise holds, so that it is the bug that was found and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.replica.put_rules import PutStatus
from brokers.service.clients import queue_locks
from brokers.service.clients.queue_locks import Queue, QueueLocks
from brokers.service.delivery import send_back
from brokers.service.delivery.levels import DelayLevel, OtherClock
from brokers.service.metadata import lock_requests
from brokers.service.metadata.lock_requests import LockRequests
from brokers.service.popping.ack_service import AckService
from brokers.service.popping.collect import Collector
from brokers.service.popping.matching import OpenPoint, OpenPoints
from brokers.service.popping.ordered import Batch, OrderedPops
from brokers.service.sending import messages
from brokers.service.sending.delayed import HALF_TOPIC
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.timed import TimerRules
from brokers.service.tables.kept_for_java import KeptDocument, TimerCheckPoint
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.timers import slot_reader
from brokers.service.timers.progress import Progress
from brokers.service.timers.time_rules import SteadyTime
from brokers.service.transactions.decided import Decided
from brokers.service.transactions.end_requests import EndTransactions
from brokers.service.transactions.ledger import TransactionLedger
from tests.simulation.judged import say
from tests.simulation.known_seeds import first_found
from tests.simulation.services.faults import Mix
from tests.simulation.services.realm import Shape
from tests.simulation.services.run import run_world
from tests.simulation.world import InvariantBroken, World

Patch = pytest.MonkeyPatch

QUIET = Mix({"hand_over": 1})
LIVES = Mix({"lose_tail": 6, "kill": 2, "hand_over": 2}, not_the_master_one_in=20)
CLOCKS = Mix({"clock_jump": 3, "hand_over": 1})


def delayed_messages_are_due_at_once(patch: Patch) -> None:
    patch.setattr(DelayLevel, "_is_early", lambda self, deliver_ms, now_ms: False)


def delayed_messages_come_forward_where_the_clock_is_set_back(patch: Patch) -> None:
    patch.setattr(OtherClock, "seen", lambda self, *_: self)


def timed_messages_go_into_an_earlier_slot(patch: Patch) -> None:
    slot_of = TimerRules.slot_of
    patch.setattr(TimerRules, "slot_of", lambda self, ms: slot_of(self, ms) - 2 * self.precision_ms)


def the_wheel_follows_a_clock_that_jumps(patch: Patch) -> None:
    patch.setattr(SteadyTime, "now_ms", lambda self, wall_ms, steady_ms: wall_ms)


def places_of_delays_are_told_before_their_copies_are_safe(patch: Patch) -> None:
    patch.setattr(DelayLevel, "safe", lambda self, durable: self.next_offset)


def slots_are_told_before_their_copies_are_safe(patch: Patch) -> None:
    patch.setattr(Progress, "safe_read_ms", property(lambda self: self.read_ms))
    patch.setattr(Progress, "safe_offset", lambda self, next_offset: next_offset)


def a_new_master_looks_at_later_halves_only(patch: Patch) -> None:
    place = TransactionLedger._place

    def at_the_end(self: Any, topic: str) -> int:
        return self._store.queue_bounds(topic, 0)[1] if topic == HALF_TOPIC else place(self, topic)

    patch.setattr(TransactionLedger, "_place", at_the_end)


def halves_are_not_set_aside(patch: Patch) -> None:
    patch.setattr(messages, "as_half", lambda message, unique_key: message)


def a_rollback_commits(patch: Patch) -> None:
    decide = EndTransactions._decide
    patch.setattr(
        EndTransactions,
        "_decide",
        lambda self, request, half, commit, physical: decide(self, request, half, True, physical),
    )


def decisions_are_told_before_their_records_are_safe(patch: Patch) -> None:
    settle = Decided.settle

    def told(self: Decided, durable_offset: int) -> tuple[int, int]:
        _, op = settle(self, durable_offset)
        self.half = self.next_open(self.half)
        return self.half, op

    patch.setattr(Decided, "settle", told)


def acknowledgements_do_not_wait_for_the_members(patch: Patch) -> None:
    async def put(self: Any, *records: Any) -> None:
        self._terms.puts.append([self._terms.waiting(record) for record in records])

    patch.setattr(AckService, "_put", put)


def what_is_left_comes_back_without_waiting_for_acknowledgements(patch: Patch) -> None:
    def due(self: OpenPoints, now_ms: int) -> OpenPoint | None:
        return next(
            (one for _, _, one in self._due if one.is_open and one.point.visible_ms <= now_ms), None
        )

    patch.setattr(OpenPoints, "due", due)


def check_points_do_not_wait_for_the_members(patch: Patch) -> None:
    whole = Collector._hand_out

    async def hand_out(self: Any, pop: Any, got: Any) -> None:
        async def put_all(records: Any) -> PutStatus:
            puts.append(records)
            return PutStatus.PUT_OK

        puts = self._terms.puts
        before, puts.put_all = puts.put_all, put_all
        try:
            await whole(self, pop, got)
        finally:
            puts.put_all = before

    patch.setattr(Collector, "_hand_out", hand_out)


def check_points_that_wait_are_told_to_be_decided(patch: Patch) -> None:
    patch.setattr(OpenPoints, "safe", lambda self, durable: self.next_offset - 1)


def a_lock_keeps_nobody_out(patch: Patch) -> None:
    patch.setattr(queue_locks, "LOCK_EXPIRES_MS", -1)


def locks_do_not_wait_for_the_members(patch: Patch) -> None:
    async def told(
        self: LockRequests, request: RemotingCommand, _group: str, _client: str, held: list[Queue]
    ) -> RemotingCommand:
        return lock_requests._locked(request, held)

    patch.setattr(LockRequests, "_answered", told)


def slaves_do_not_take_locks(patch: Patch) -> None:
    patch.setattr(QueueLocks, "put", lambda self, *_: None)


def a_new_master_begins_without_locks(patch: Patch) -> None:
    patch.setattr(QueueLocks, "lead", lambda self, now_ms: self.become({}, now_ms))


def slaves_do_not_take_offsets(patch: Patch) -> None:
    patch.setattr(ConsumerOffsets, "adopt", lambda self, table: None)


def slaves_do_not_take_places_of_delays(patch: Patch) -> None:
    patch.setattr(KeptDocument, "adopt", lambda self, body: None)


def slaves_do_not_take_the_check_point_of_the_wheel(patch: Patch) -> None:
    patch.setattr(TimerCheckPoint, "adopt", lambda self, body: None)


def a_queue_is_popped_while_its_batch_is_out(patch: Patch) -> None:
    patch.setattr(OrderedPops, "blocks", lambda self, *_: False)


def one_acknowledgement_in_order_is_for_the_whole_batch(patch: Patch) -> None:
    patch.setattr(Batch, "next_offset", property(lambda self: self.offsets[-1] + 1))


def slaves_do_not_take_what_is_out_in_order(patch: Patch) -> None:
    patch.setattr(KeptDocument, "adopt", lambda self, body: None)


def what_is_sent_back_comes_at_once(patch: Patch) -> None:
    patch.setattr(send_back, "as_stored", lambda fields: fields)


def what_is_sent_back_does_not_wait_for_the_members(patch: Patch) -> None:
    _puts_do_not_wait(patch)


def recalls_do_not_wait_for_the_members(patch: Patch) -> None:
    _puts_do_not_wait(patch)


def _puts_do_not_wait(patch: Patch) -> None:
    async def settled(self: OwnPuts, end_offset: int) -> PutStatus:
        return PutStatus.PUT_OK

    patch.setattr(OwnPuts, "settled", settled)


def a_slot_is_delivered_with_what_was_recalled(patch: Patch) -> None:
    patch.setattr(slot_reader._Making, "_is_out", lambda self, message, goes: False)


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the worlds it is looked for in, the seed from which on, and within how many of them it
    must be found.
    """

    plant: Callable[[Patch], None]
    mix: Mix
    uses: tuple[str, ...]
    first: int = 1
    within: int = 60


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(delayed_messages_are_due_at_once, QUIET, ("delays",)),
        Planted(delayed_messages_come_forward_where_the_clock_is_set_back, CLOCKS, ("delays",), 60),
        Planted(timed_messages_go_into_an_earlier_slot, QUIET, ("timers",)),
        Planted(the_wheel_follows_a_clock_that_jumps, CLOCKS, ("timers",)),
        Planted(places_of_delays_are_told_before_their_copies_are_safe, LIVES, ("delays",), 3),
        Planted(slots_are_told_before_their_copies_are_safe, LIVES, ("timers",), 4),
        Planted(a_new_master_looks_at_later_halves_only, LIVES, ("transactions",)),
        Planted(halves_are_not_set_aside, QUIET, ("transactions",)),
        Planted(a_rollback_commits, QUIET, ("transactions",)),
        Planted(decisions_are_told_before_their_records_are_safe, LIVES, ("transactions",)),
        Planted(acknowledgements_do_not_wait_for_the_members, LIVES, ("pops",), 3),
        Planted(what_is_left_comes_back_without_waiting_for_acknowledgements, QUIET, ("pops",)),
        Planted(check_points_do_not_wait_for_the_members, LIVES, ("pops",), 16),
        Planted(check_points_that_wait_are_told_to_be_decided, LIVES, ("pops",)),
        Planted(a_lock_keeps_nobody_out, QUIET, ("pops", "locks")),
        Planted(locks_do_not_wait_for_the_members, LIVES, ("pops", "locks")),
        Planted(slaves_do_not_take_locks, LIVES, ("pops", "locks")),
        Planted(a_new_master_begins_without_locks, LIVES, ("pops", "locks")),
        Planted(a_queue_is_popped_while_its_batch_is_out, QUIET, ("ordered",)),
        Planted(one_acknowledgement_in_order_is_for_the_whole_batch, QUIET, ("ordered",)),
        Planted(slaves_do_not_take_what_is_out_in_order, QUIET, ("ordered",)),
        Planted(what_is_sent_back_comes_at_once, QUIET, ("returns",)),
        Planted(what_is_sent_back_does_not_wait_for_the_members, LIVES, ("returns",)),
        Planted(recalls_do_not_wait_for_the_members, LIVES, ("timers",)),
        Planted(a_slot_is_delivered_with_what_was_recalled, QUIET, ("timers",)),
        Planted(slaves_do_not_take_offsets, LIVES, ("pops", "offsets")),
        Planted(slaves_do_not_take_places_of_delays, LIVES, ("delays",)),
        Planted(slaves_do_not_take_the_check_point_of_the_wheel, LIVES, ("timers",), 13),
    )
}


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTED)
def test_a_bug_of_a_service_that_is_planted_is_found(
    name: str, request: pytest.FixtureRequest
) -> None:
    bug = PLANTED[name]
    shape = Shape(members=2, uses=bug.uses)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        found = first_found(
            f"services/{name}",
            range(bug.first, bug.first + bug.within),
            lambda seed: _broken(seed, bug, shape),
        )
    assert found is not None, f"{name}: not found within {bug.within} worlds"
    seed, why = found
    say(request, f"{name}: seed {seed}: {why}")
    run_world(World(seed), bug.mix, shape)


def _broken(seed: int, bug: Planted, shape: Shape) -> str | None:
    try:
        run_world(World(seed), bug.mix, shape)
    except InvariantBroken as error:
        return str(error)[:200]
    return None
