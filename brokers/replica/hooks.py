"""What the broker around a replica does for it.

Responsible for: the callables a broker gives, and running the slow ones as tasks in order. Refuses
to know: what a broker does with what it is told.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

from brokers.replica.effects import ProposeSyncSet, RoleChanged

logger = logging.getLogger("regent.broker.replica")

PROPOSE_TIMEOUT_MS = 3000
ROLE_CHANGES_KEPT = 100


@dataclass(frozen=True, slots=True)
class AlterResult:
    """Answer to a proposal. `code` None: unknown (timeout, connection lost, 2007)."""

    code: int | None
    members: tuple[int, ...] | None = None
    set_epoch: int | None = None
    master_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaHooks:
    """What the broker around does. Plain callables run inside a step: short, and no call back
    in.
    """

    on_role_changed: Callable[[RoleChanged], Awaitable[None]]
    propose: Callable[[ProposeSyncSet, str], Awaitable[AlterResult]]  # effect, command id (hex)
    ask_controller: Callable[[bool], None]  # elect?
    on_confirm: Callable[[int], None]
    report: Callable[[str, Mapping[str, object]], None]
    on_storage_failed: Callable[[str], None] = lambda reason: None  # the replica is fenced for good
    on_broken: Callable[[BaseException], None] = lambda error: None  # this process cannot go on
    ask_ha_address: Callable[[str], None] = lambda master_address: None
    register_again: Callable[[], None] = lambda: None  # with what `clean` says now
    # begins a flush beside the loop; who refuses it tells `storage_failed`
    flush_soon: Callable[[], None] = lambda: None
    keep_refused: Callable[[tuple[tuple[str, int], ...]], None] = lambda ends: None
    leave_out: Callable[[str], None] = lambda kind: None  # one of too many: a gap tells it


class BrokerTeller:
    """Role changes one after the other; proposals side by side, each with exactly one result."""

    def __init__(
        self, hooks: ReplicaHooks, on_alter_result: Callable[[int, AlterResult], None]
    ) -> None:
        self._hooks = hooks
        self._on_alter_result = on_alter_result
        self._tasks: set[asyncio.Task[None]] = set()
        self._role_changes: deque[RoleChanged] = deque(maxlen=ROLE_CHANGES_KEPT)
        self._telling = False

    def role_changed(self, change: RoleChanged) -> None:
        self._role_changes.append(change)
        if not self._telling:
            self._telling = True
            self._spawn(self._tell_role_changes())

    async def _tell_role_changes(self) -> None:
        """The broker never hears of two roles at once, nor in another order."""
        try:
            while self._role_changes:
                change = self._role_changes.popleft()
                try:
                    await self._hooks.on_role_changed(change)
                except Exception as error:
                    # A master that nobody can reach, but whose process lives, would never be
                    # replaced.
                    logger.exception("role change %s was not followed", change)
                    self._hooks.on_broken(error)
        finally:
            self._telling = False

    def propose(self, effect: ProposeSyncSet, incarnation: str) -> None:
        self._spawn(self._propose(effect, command_id(incarnation, effect.token)))

    async def _propose(self, effect: ProposeSyncSet, command: str) -> None:
        """Whatever goes wrong on the way makes the result an unknown one."""
        result = AlterResult(None)
        try:
            async with asyncio.timeout(PROPOSE_TIMEOUT_MS / 1000):
                result = await self._hooks.propose(effect, command)
        except Exception as error:
            reason = str(error) or type(error).__name__
            logger.warning("SyncStateSet proposal %s: %s", effect.members, reason)
        self._on_alter_result(effect.token, result)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def command_id(incarnation: str, token: int) -> str:
    """32 hex digits: the same for every attempt of one proposal, another for every other one."""
    return hashlib.blake2b(f"{incarnation}/{token}".encode(), digest_size=16).hexdigest()
