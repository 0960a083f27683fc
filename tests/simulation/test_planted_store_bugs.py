"""Bugs planted where the product gives messages their queue entries, deletes old files, passes
sends on and leaves silent links.

As test_planted_bugs: each is found within a few worlds, and the world is whole without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokers.ha import pace
from brokers.service.role.forward import Forwarder
from brokers.service.sending import messages
from brokers.store.log import retention
from brokers.store.queues.dispatch import Dispatcher
from tests.simulation.cluster import Shape
from tests.simulation.mixes import Mix
from tests.simulation.test_planted_bugs import CUTS, DEATHS, Patch, Planted, find

CROWDED = Mix(
    {"disk_crowded": 4, "isolate": 1, "pause_broker": 1},
    every_ms=(200, 900),
    stall_one_in=0,
    odd=False,
)
SLOW_LINKS = Mix(
    {"slow_links": 4, "kill_master": 2}, every_ms=(100, 700), stall_one_in=0, odd=False
)
UNANSWERED = Mix({"slow_disk": 3, "kill_master": 3}, every_ms=(200, 900), stall_one_in=0, odd=False)
"""Masters die while messages that all replicas have wait for a sync: their outcome is unknown, and
they are there.
"""
RETAINS, SYNC = Shape(retains=True), Shape(sync_flush=True)


def entries_before_the_set_has_the_message(patch: Patch) -> None:
    dispatch = Dispatcher._dispatch
    patch.setattr(
        Dispatcher, "_dispatch", lambda self, target: dispatch(self, self._log.end_offset)
    )


def entries_of_a_log_that_was_cut(patch: Patch) -> None:
    def forgetful(self: Dispatcher, offset: int) -> None:
        self.dispatched_offset = offset

    patch.setattr(Dispatcher, "restart_at", forgetful)


def unconfirmed_files_are_deleted(patch: Patch) -> None:
    decide = retention.decide

    def greedy(policy: Any, files: Any, limits: Any, *args: Any, **how: Any) -> Any:
        return decide(policy, files, retention.Limits(1 << 62, 1 << 62), *args, **how)

    patch.setattr(retention, "decide", greedy)


def files_are_deleted_before_their_time(patch: Patch) -> None:
    decide = retention.decide
    patch.setattr(
        retention,
        "decide",
        lambda policy, *args, **how: decide(replace(policy, reserved_ms=0), *args, **how),
    )


def who_sent_first_is_forgotten(patch: Patch) -> None:
    patch.setattr(
        messages, "_born_host", lambda connection, request: messages.packed_peer(connection.peer)
    )


def sends_of_unknown_outcome_are_passed_on_again(patch: Patch) -> None:
    handle = Forwarder.handle
    patch.setattr(
        Forwarder,
        "handle",
        lambda self, *args, **how: handle(self, *args, **(how | {"repeatable": True})),
    )


def silent_links_are_kept(patch: Patch) -> None:
    patch.setattr(pace.Patience, "limit_ms", property(lambda self: self._longest_ms))


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(entries_before_the_set_has_the_message, SLOW_LINKS, 20),
        Planted(entries_of_a_log_that_was_cut, CUTS, 20),
        Planted(unconfirmed_files_are_deleted, CROWDED, 20, RETAINS),
        Planted(files_are_deleted_before_their_time, CROWDED, 5, RETAINS),
        Planted(who_sent_first_is_forgotten, DEATHS, 5),
        Planted(sends_of_unknown_outcome_are_passed_on_again, UNANSWERED, 5, SYNC),
        Planted(silent_links_are_kept, CUTS, 10),
    )
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_the_store_is_found(name: str, request: pytest.FixtureRequest) -> None:
    find(PLANTED[name], request)
