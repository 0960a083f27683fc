"""Java members that lost data with their power, as their heartbeats show (design S15).

They register as ever and tell neither where their log ends nor whether they lost anything. So what
a former start told is void with a registration, its member is no candidate before it has shown its
log, and whoever then shows less than it held before is registered in its name as unclean, which
takes it out of the set at once.

Responsible for: how much such a replica must show, and whether a heartbeat shows less. Refuses to
know: what follows.
"""

from __future__ import annotations

from processors.fold.decide_positions import position_of
from processors.fold.rules import rules_of
from processors.fold.state import BrokerSet, Replica
from processors.liveness.pulses import Heartbeat, Pulse


def expected_of(
    broker_set: BrokerSet, replica: Replica, before: tuple[int, int]
) -> tuple[int, int] | None:
    """(epoch, offset) that a replica which started without telling its position held; None:
    nothing is expected of it.

    `before`: what its former start told this controller. It counts in the epoch of which the log
    knows something: there it is the later word.
    """
    if replica.incarnation is not None or not replica.is_registered:
        return None
    row = position_of(broker_set.positions, replica.broker_id)
    if row is None or not row.restarted:
        return None
    return row.epoch, max(row.end_offset, before[1]) if before[0] == row.epoch else row.end_offset


def shows_less(
    rules_version: int, broker_set: BrokerSet, pulse: Pulse, beat: Heartbeat
) -> tuple[int, int] | None:
    """What the sender of `beat` held before and lacks now; None when it lacks nothing, or counts as
    unclean already.
    """
    replica = broker_set.replica(beat.key[2])
    if (
        replica is None
        or not replica.clean
        or beat.max_offset < 0
        or not rules_of(rules_version).notices_going_back
    ):
        return None
    expected = expected_of(broker_set, replica, pulse.before)
    return expected if expected is not None and (beat.epoch, beat.max_offset) < expected else None
