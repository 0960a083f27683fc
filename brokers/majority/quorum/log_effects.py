"""What a shell does with a member's log and its file of terms, effect by effect.

Responsible for: effects that write, one after the other, how far they came, and what the member
hears of it; the entries of a client. Refuses to know: which log it is, and when it is flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokers.majority.log_port import MajorityLog, Taken, TermStore
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    AppendAsFollower,
    AppendAsLeader,
    Commit,
    Effect,
    NewEntry,
    RestartAt,
    SaveTerm,
    TruncateFrom,
)
from brokers.majority.quorum.turns import Step
from brokers.majority.wire.codes import Code
from brokers.store.files.errors import DiskFull, LogError

LogEffect = SaveTerm | AppendAsLeader | AppendAsFollower | TruncateFrom | RestartAt | Commit


def new_entries(token: object, bodies: Sequence[bytes]) -> list[NewEntry]:
    """For one append: the client waits for the last of them."""
    last = len(bodies) - 1
    return [
        NewEntry(token if at == last else None, len(body), _as_it_is(body))
        for at, body in enumerate(bodies)
    ]


def _as_it_is(body: bytes) -> Callable[[int], bytes]:
    return lambda position: body


def do(log: MajorityLog, terms: TermStore, effect: LogEffect, now_ms: int) -> Step | None:
    """Carries it out; what the member hears of it, None: nothing. LogError, OSError: the disk
    refused, and nothing that stands behind it may be carried out.
    """
    match effect:
        case SaveTerm():
            terms.save(effect.state)
        case AppendAsLeader():
            return _written(append_as_leader(log, effect), now_ms)
        case AppendAsFollower():
            return _heard(*append_as_follower(log, effect), now_ms)
        case RestartAt():
            begun = log.restart_at(effect.entry)
            return _heard(begun, int(begun is Taken.APPENDED), now_ms)
        case TruncateFrom():
            log.truncate_from(effect.index)
        case Commit():
            log.commit(effect.index)
    return None


def _written(failure: Code | None, now_ms: int) -> Step:
    def hear(core: QuorumCore) -> list[Effect]:
        return core.appended(failure, now_ms)

    return hear


def _heard(taken: Taken, count: int, now_ms: int) -> Step:
    def hear(core: QuorumCore) -> list[Effect]:
        return core.taken(taken, count, now_ms)

    return hear


def append_as_leader(log: MajorityLog, effect: AppendAsLeader) -> Code | None:
    """Why not all of them are in the log; None: they are."""
    for entry in effect.entries:
        try:
            log.append_as_leader(effect.term, entry.size, entry.build)
        except DiskFull:
            return Code.DISK_FULL
        except LogError:
            return Code.DISK_ERROR
    return None


def append_as_follower(log: MajorityLog, effect: AppendAsFollower) -> tuple[Taken, int]:
    """(what came of the last one that was tried, how many are in the log)."""
    taken = Taken.HELD
    for count, entry in enumerate(effect.entries):
        taken = log.append_as_follower(entry)
        if taken not in (Taken.APPENDED, Taken.HELD):
            return taken, count
    return taken, len(effect.entries)
