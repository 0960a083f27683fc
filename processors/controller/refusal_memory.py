"""Requests that changed nothing, so that a repeat is not recorded again: a log kept for ever stays
small.

Responsible for: when two requests are the same, when the situation that decided is the same, the
counts.
Refuses to know: who asks, and whether what is known here is current (a read barrier says).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from immutables import Map

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from events.envelope import ReplicaEvidence
from events.outcomes import LABEL_REPEAT, Outcome
from processors.fold.refusals import UNDECIDED, Refusal
from processors.fold.state import BrokerSet, ControllerState

REFUSALS_MAX = 10_000
SETS_COUNTED_MAX = 10_000
KINDS_COUNTED_MAX = 100

# What differs between two sendings of the same request: times, ids, signatures.
_NEVER_THE_SAME = frozenset(
    {"invokeTime", "regentCommandId", "AccessKey", "Signature", "SecurityToken", FORWARDED_FOR}
)
# Refused for where the command stood in the log, not for what it asks.
_BOUND_TO_THE_RECORD = frozenset(one.name for one in (*UNDECIDED, Refusal.STATE_MOVED))


class Situation(NamedTuple):
    """Everything that a decision about one set rests on."""

    broker_set: BrokerSet | None
    settings: Map[str, str]
    rules_version: int
    evidence: tuple[tuple[int, bool, int, str | None], ...]


def situation(
    state: ControllerState, name: str | None, evidence: Iterable[ReplicaEvidence]
) -> Situation:
    """Of evidence what decides whether a request is refused; how far logs have grown only decides
    who wins.
    """
    return Situation(
        None if name is None else state.sets.get(name),
        state.settings,
        state.rules_version,
        tuple((row.broker_id, row.alive, row.epoch, row.incarnation) for row in evidence),
    )


def can_be_remembered(outcome: Outcome) -> bool:
    """True for what changed nothing and would come again: a refusal, or what was so already."""
    if outcome.changes or LABEL_REPEAT in outcome.labels:
        return False
    return outcome.refusal not in _BOUND_TO_THE_RECORD


class RefusalMemory:
    """Soft: gone with the process, and then each refusal is recorded once more."""

    def __init__(self, refusals_max: int = REFUSALS_MAX) -> None:
        self._refusals_max = refusals_max
        self._known: dict[bytes, tuple[Situation, Outcome]] = {}
        self._counts: dict[str, dict[tuple[int, str], list[int]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def knows(self, request: RemotingCommand) -> bool:
        """True when the same request is remembered, in whatever situation."""
        return bool(self._known) and _key(request) in self._known

    def remember(self, request: RemotingCommand, outcome: Outcome, at: Situation) -> None:
        """This came of the request in that situation."""
        if not can_be_remembered(outcome):
            return
        key = _key(request)
        self._known.pop(key, None)
        self._known[key] = (at, outcome)
        if len(self._known) > self._refusals_max:
            del self._known[next(iter(self._known))]

    def find(self, request: RemotingCommand, now: Situation) -> Outcome | None:
        """What came of the same request, if it would be so again; a changed situation makes it
        forgotten.
        """
        key = _key(request)
        found = self._known.get(key)
        if found is None:
            return None
        if found[0] != now:
            del self._known[key]
            return None
        return found[1]

    def count(self, request: RemotingCommand, outcome: Outcome, wall_ms: int) -> None:
        """One more answer from memory."""
        name = outcome.broker_name or ""
        kinds = self._counts.pop(name, {})
        self._counts[name] = kinds
        kind = (request.code, outcome.refusal or "")
        if kind in kinds or len(kinds) < KINDS_COUNTED_MAX:
            row = kinds.setdefault(kind, [0, 0])
            row[0] += 1
            row[1] = wall_ms
        if len(self._counts) > SETS_COUNTED_MAX:
            del self._counts[next(iter(self._counts))]

    def rows_of(self, name: str) -> list[dict[str, object]]:
        """What was answered from memory about a set; `last_ms` is wall time."""
        return [
            {"code": code, "refusal": refusal, "count": count, "last_ms": last_ms}
            for (code, refusal), (count, last_ms) in sorted(self._counts.get(name, {}).items())
        ]


def _key(request: RemotingCommand) -> bytes:
    digest = hashlib.blake2b(str(request.code).encode(), digest_size=16)
    for name in sorted(request.ext.keys() - _NEVER_THE_SAME):
        for text in (name, request.ext[name]):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "big"))
            digest.update(data)
    digest.update(request.body)
    return digest.digest()
