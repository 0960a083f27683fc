"""What a shell does with a log for a member of a majority group, and the entries of a client.

Responsible for: effects that write several entries, one after the other, and how far they came.
Refuses to know: which log it is, who hears of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokers.majority.log_port import MajorityLog, Taken
from brokers.majority.quorum.effects import AppendAsFollower, AppendAsLeader, NewEntry
from brokers.majority.wire.codes import Code
from brokers.store.files.errors import DiskFull


def new_entries(token: object, bodies: Sequence[bytes]) -> list[NewEntry]:
    """For one append: the client waits for the last of them."""
    last = len(bodies) - 1
    return [
        NewEntry(token if at == last else None, len(body), lambda _, body=body: body)
        for at, body in enumerate(bodies)
    ]


def append_as_leader(log: MajorityLog, effect: AppendAsLeader) -> Code | None:
    """Why not all of them are in the log; None: they are."""
    for entry in effect.entries:
        try:
            log.append_as_leader(effect.term, entry.size, entry.build)
        except DiskFull:
            return Code.DISK_FULL
    return None


def append_as_follower(log: MajorityLog, effect: AppendAsFollower) -> tuple[Taken, int]:
    """(what came of the last one that was tried, how many are in the log)."""
    taken = Taken.HELD
    for count, entry in enumerate(effect.entries):
        taken = log.append_as_follower(entry)
        if taken not in (Taken.APPENDED, Taken.HELD):
            return taken, count
    return taken, len(effect.entries)
