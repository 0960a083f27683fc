"""What a broker of a set without controllers does too often to tell each time: puts at other sets,
rounds of votes, votes (PROTOCOL 7.6).

Responsible for: counting them, and closing the counts in time, as broker events. Refuses to know:
what is put and locked, and who takes the events.

So many events at most leave a broker, whatever goes on: of escapes `PARTS_MAX` and one more for
each kind, a second; of locks twice `PARTS_MAX` and two more, each ten seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from brokers.acting import effects as fx
from brokers.acting.forms import Kind
from brokers.acting.outcomes import Put, is_done

ESCAPE_BATCH_MS, LOCK_BATCH_MS = 1_000, 10_000
# Parts of a batch with a name of their own; all others are counted together.
PARTS_MAX = 16
TOPICS_MAX = 8
CLIENTS_MAX = 1_000

Key = TypeVar("Key", bound=Hashable)
Part = TypeVar("Part")


class _Batch(Generic[Key, Part]):
    """Parts by key, from the first look after something was counted until `batch_ms` later."""

    def __init__(self, batch_ms: int) -> None:
        self._batch_ms = batch_ms
        self._since_ms: int | None = None
        self.parts: dict[Key, Part] = {}

    def has_room_for(self, key: Key) -> bool:
        return key in self.parts or len(self.parts) < PARTS_MAX

    def closed(self, now_ms: int, *, at_once: bool = False) -> tuple[dict[Key, Part], int]:
        """(parts, how long they were counted in ms); none while the batch is open."""
        if not self.parts:
            return {}, 0
        if self._since_ms is None:
            self._since_ms = now_ms
        over_ms = max(0, now_ms - self._since_ms)
        if over_ms < self._batch_ms and not at_once:
            return {}, 0
        parts, self.parts, self._since_ms = self.parts, {}, None
        return parts, over_ms


@dataclass(slots=True)
class _Puts:
    messages: int = 0
    soft: int = 0
    failed: int = 0
    size_bytes: int = 0
    topics: dict[str, None] = field(default_factory=dict)


class EscapeBatches:
    """Puts at other sets, by kind and by set."""

    def __init__(self) -> None:
        self._batch: _Batch[tuple[str, str], _Puts] = _Batch(ESCAPE_BATCH_MS)

    def put(self, kind: Kind, to: str, put: Put, size_bytes: int, topic: str) -> None:
        """What came of one; `to`: the set whose master it went to."""
        key = (kind.value, to)
        if not self._batch.has_room_for(key):
            key = (kind.value, "")
        part = self._batch.parts.setdefault(key, _Puts())
        if not is_done(put):
            part.failed += 1
            return
        part.messages += 1
        part.soft += put is Put.SOFT
        part.size_bytes += size_bytes
        if len(part.topics) < TOPICS_MAX:
            part.topics[topic] = None

    def due(self, now_ms: int, *, at_once: bool = False) -> list[fx.Effect]:
        """To be asked each second or more often. `at_once`: the acting is over."""
        parts, over_ms = self._batch.closed(now_ms, at_once=at_once)
        return [
            fx.Report(
                "EscapeBatch",
                {
                    "kind": kind,
                    "to_broker_name": to,
                    "messages": part.messages,
                    "soft": part.soft,
                    "failed": part.failed,
                    "size_bytes": part.size_bytes,
                    "topics": list(part.topics),
                    "over_ms": over_ms,
                },
            )
            for (kind, to), part in parts.items()
        ]


@dataclass(slots=True)
class _Rounds:
    rounds: int = 0
    clients: set[str] = field(default_factory=set)
    won: int = 0
    lost: int = 0
    asked: int = 0
    silent: int = 0


@dataclass(slots=True)
class _Votes:
    requests: int = 0
    given: int = 0
    refused: int = 0


class LockCounts:
    """Rounds and votes, by consumer group."""

    def __init__(self) -> None:
        self._rounds: _Batch[str, _Rounds] = _Batch(LOCK_BATCH_MS)
        self._votes: _Batch[str, _Votes] = _Batch(LOCK_BATCH_MS)

    def round_over(
        self, group: str, client_id: str, *, won: int, lost: int, asked: int, silent: int
    ) -> None:
        """One round of votes: queues won and lost, members asked and those that did not answer."""
        key = group if self._rounds.has_room_for(group) else ""
        part = self._rounds.parts.setdefault(key, _Rounds())
        part.rounds += 1
        part.won += won
        part.lost += lost
        part.asked += asked
        part.silent += silent
        if len(part.clients) < CLIENTS_MAX:
            part.clients.add(client_id)

    def voted(self, group: str, asked: Collection[object], given: Collection[object]) -> None:
        """This broker's vote in a round of another member: queues asked for, and given."""
        key = group if self._votes.has_room_for(group) else ""
        part = self._votes.parts.setdefault(key, _Votes())
        part.requests += 1
        part.given += len(given)
        part.refused += len(asked) - len(given)

    def due(self, now_ms: int) -> list[fx.Effect]:
        """To be asked each second or more often."""
        rounds, over_ms = self._rounds.closed(now_ms)
        found: list[fx.Effect] = [
            fx.Report(
                "LockRounds",
                {
                    "consumer_group": group,
                    "rounds": one.rounds,
                    "clients": len(one.clients),
                    "queues_won": one.won,
                    "queues_lost": one.lost,
                    "asked": one.asked,
                    "silent": one.silent,
                    "over_ms": over_ms,
                },
            )
            for group, one in rounds.items()
        ]
        votes, over_ms = self._votes.closed(now_ms)
        found += [
            fx.Report(
                "LockVotes",
                {
                    "consumer_group": group,
                    "requests": vote.requests,
                    "queues_given": vote.given,
                    "queues_refused": vote.refused,
                    "over_ms": over_ms,
                },
            )
            for group, vote in votes.items()
        ]
        return found
