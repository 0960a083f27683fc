"""A planned hand-over of the mastership, as decisions (DESIGN 5).

Responsible for: who may take over, when the log is quiet enough to ask the controller, and when to
give up and serve on.
Refuses to know: sockets, clocks, how the controller is asked, how requests are held meanwhile.

DRAINING: new writes are held, those in the log are waited for. ASKING: the target has every byte;
the controller decides, with its ordinary election. DONE: the target leads. RESUMED: this mastership
goes on, and `reason` says why. Nothing that was acknowledged rests on any of this: an election at
any moment is safe, a hand-over only keeps sends from failing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

DRAIN_MS = 500
LIMIT_MS = 1_500
# A member this far behind is caught up within a few milliseconds once nothing new comes.
LAG_BYTES_MAX = 8 * 1024 * 1024


class Refused(Exception):
    """No hand-over now; the text says why. Nothing was held up for it."""


class Stage(Enum):
    """Where a hand-over stands."""

    DRAINING = "waiting for the members to have everything"
    ASKING = "waiting for the controller"
    DONE = "the target leads"
    RESUMED = "this broker goes on"


@dataclass(frozen=True, slots=True)
class Slave:
    """A linked slave: `acked` is -1 before its first acknowledgement."""

    broker_id: int
    in_sync: bool
    acked: int


@dataclass(frozen=True, slots=True)
class Facts:
    """One look. `role`, `master_epoch`, `master_id` are what clients of this broker meet;
    `target_acked` is None without a link to the target or while it is no member; `unfinished`
    counts sends and topic changes that were begun before.
    """

    role: str
    master_epoch: int
    master_id: int | None
    log_end: int
    confirm_offset: int
    target_acked: int | None
    unfinished: int


def candidates(slaves: Iterable[Slave], log_end: int, wanted: int | None) -> tuple[int, ...]:
    """Who can take over, best first: members that are close behind, the lowest id first. Refused
    when nobody can.
    """
    known = {slave.broker_id: slave for slave in slaves}
    if wanted is not None:
        if wanted not in known:
            raise Refused(f"replica {wanted} is not linked to this master")
        if not known[wanted].in_sync:
            raise Refused(f"replica {wanted} is not in sync")
    able = [
        one
        for one in known.values()
        if one.in_sync and one.acked >= log_end - LAG_BYTES_MAX and wanted in (None, one.broker_id)
    ]
    if not able:
        if wanted is not None:
            raise Refused(f"replica {wanted} is not caught up")
        raise Refused(
            ("no other member is caught up")
            if any(one.in_sync for one in known.values())
            else "no other member is in sync"
        )
    return tuple(sorted(one.broker_id for one in able))


class HandOver:
    """One attempt, from the moment at which writes are held. `limit_ms` bounds all of it,
    `drain_ms` the first part.
    """

    def __init__(
        self,
        target: int,
        master_epoch: int,
        now_ms: int,
        *,
        drain_ms: int = DRAIN_MS,
        limit_ms: int = LIMIT_MS,
    ) -> None:
        self.target = target
        self.stage = Stage.DRAINING
        self.reason = ""
        self._epoch = master_epoch
        self._drained_by_ms = now_ms + min(drain_ms, limit_ms)
        self._over_at_ms = now_ms + limit_ms

    @property
    def over(self) -> bool:
        return self.stage in (Stage.DONE, Stage.RESUMED)

    def look(self, facts: Facts, now_ms: int) -> Stage:
        """Go on as far as the facts allow."""
        if self.over:
            return self.stage
        if facts.role != "MASTER" or facts.master_epoch != self._epoch:
            return self._role_changed(facts)
        if self.stage is Stage.DRAINING:
            self._drain(facts, now_ms)
        elif now_ms >= self._over_at_ms:
            self._resume("the controller has not decided in time")
        return self.stage

    def _role_changed(self, facts: Facts) -> Stage:
        if facts.master_id == self.target and facts.master_epoch > self._epoch:
            self.stage = Stage.DONE
        else:
            leads = "nobody" if facts.master_id is None else f"replica {facts.master_id}"
            self._resume(f"{leads} leads, in epoch {facts.master_epoch}")
        return self.stage

    def _drain(self, facts: Facts, now_ms: int) -> None:
        if facts.target_acked is None:
            self._resume(f"replica {self.target} is no linked member any more")
        elif (
            facts.target_acked >= facts.log_end
            and facts.confirm_offset >= facts.log_end
            and not facts.unfinished
        ):
            self.stage = Stage.ASKING
        elif now_ms >= self._drained_by_ms:
            self._resume("the members did not acknowledge everything in time")

    def refused(self, reason: str) -> None:
        """The target or the controller said no: serve on. Unless a role change told otherwise
        before.
        """
        if not self.over:
            self._resume(reason)

    def _resume(self, reason: str) -> None:
        self.stage, self.reason = Stage.RESUMED, reason
