"""Does a broker know more than the log up to its end? Then the log lost its newest decisions (P,
design S11).

Responsible for which reports count and how many it takes. Whatever a broker knows of epochs comes
from decisions that were applied from the log. So a report proves a loss only when it came before
the log was asked for its end, when all up to that end is folded here, and when it names a higher
epoch than that. A report counts from a replica that is or was a member and speaks as the start that
registered, and only within reach of what is known (S18). Set epochs count from the recorded master
in its epoch. A set that came over from other controllers, and is untouched here, may be ahead.
Refuses to know how the end of the log is learnt, and who stops because of the verdict.
"""

from __future__ import annotations

from typing import NamedTuple

from events.topics import COMMANDS_TOPIC
from processors.fold.state import EPOCH_REACH, BrokerSet
from processors.liveness.pulses import Heartbeat

WAY_OUT = (
    "stop all controllers, then restore it (`regent controller rebuild --from-delta` makes it anew "
    "from the landed tables) or, where no tables hold more, go on with what is left (`regent "
    "controller rebuild --from-log`): both have every set proven anew"
)
REPORTS_MIN = 3
"""Reports that stop a controller. Each is proven by an end of the log that was asked for after it
came.
"""
REPORTS_WITHIN_MS = 60_000
"""Reports further apart are no doubt of one moment: counting begins anew."""
ASK_AGAIN_MS = 5_000
"""A proof takes no longer: the end of the log was not learnt then, and the next report asks
again.
"""
SETS_MAX = 10_000
"""Sets that are doubted at once, or were reported; one that is doubted is enough to stop."""


class Ahead(NamedTuple):
    """What one replica reported beyond the log. `what`: `master epoch` or `SyncStateSet epoch`."""

    broker_id: int
    address: str
    what: str
    told: int
    known: int

    @property
    def is_within_reach(self) -> bool:
        return self.told <= self.known + EPOCH_REACH


def ahead_of(broker_set: BrokerSet | None, beat: Heartbeat) -> Ahead | None:
    """What `beat` knows beyond what is recorded of its set; None when that is nothing, or when it
    does not count.
    """
    if broker_set is None or not broker_set.has_had_master or broker_set.imported:
        return None
    _, _, broker_id = beat.key
    replica = broker_set.replica(broker_id)
    if replica is None or beat.incarnation is None or beat.incarnation != replica.incarnation:
        return None
    if broker_id not in broker_set.sync_state_set and broker_id not in broker_set.former:
        return None
    if beat.epoch_seen > broker_set.master_epoch:
        return Ahead(
            broker_id, replica.address, "master epoch", beat.epoch_seen, broker_set.master_epoch
        )
    of_master = broker_id == broker_set.master_broker_id and beat.epoch == broker_set.master_epoch
    if of_master and beat.set_epoch > broker_set.sync_state_set_epoch:
        return Ahead(
            broker_id,
            replica.address,
            "SyncStateSet epoch",
            beat.set_epoch,
            broker_set.sync_state_set_epoch,
        )
    return None


class LogDoubts:
    """Counts the reports of each set that its log is behind. `now_ms` is monotonic."""

    def __init__(self) -> None:
        self._asked_ms: dict[str, int] = {}
        self._proven: dict[str, tuple[int, int]] = {}
        self._told: set[str] = set()

    def begins(self, name: str, now_ms: int) -> bool:
        """Whether a proof is to be begun now: one of a set is under way at a time."""
        asked_ms = self._asked_ms.get(name)
        if (asked_ms is None and len(self._asked_ms) >= SETS_MAX) or (
            asked_ms is not None and now_ms < asked_ms + ASK_AGAIN_MS
        ):
            return False
        self._asked_ms[name] = now_ms
        return True

    def is_news(self, name: str) -> bool:
        """Whether the first unbelievable report of this set is still to be logged."""
        if name in self._told or len(self._told) >= SETS_MAX:
            return False
        self._told.add(name)
        return True

    def proven(self, name: str, ahead: Ahead | None, now_ms: int) -> bool:
        """Take what the report says of the log up to an end asked for after it came; True when it
        is enough to stop.
        """
        self._asked_ms.pop(name, None)
        count, since_ms = self._proven.pop(name, (0, now_ms))
        if ahead is None or not ahead.is_within_reach:
            return False
        if now_ms - since_ms > REPORTS_WITHIN_MS:
            count, since_ms = 0, now_ms
        if len(self._proven) < SETS_MAX:
            self._proven[name] = count + 1, since_ms
        return count + 1 >= REPORTS_MIN


def behind_brokers(name: str, ahead: Ahead, end: int) -> str:
    """The text for a log that ends, at offset `end`, before what a broker knows."""
    return (
        f"{COMMANDS_TOPIC} ends at offset {end} with {ahead.what} {ahead.known} of {name}, but its "
        f"broker {ahead.broker_id} ({ahead.address}) was told {ahead.told}: the log lost its "
        f"newest decisions; {WAY_OUT}"
    )


def beyond_belief(name: str, ahead: Ahead) -> str:
    """The text for a report that is no loss of the log: that many decisions cannot have gone, so it
    is a stranger's or damaged.
    """
    return (
        f"{name}: broker {ahead.broker_id} ({ahead.address}) reports {ahead.what} {ahead.told}, "
        f"and the log knows {ahead.known}: it is not followed (more than {EPOCH_REACH} above it)"
    )
