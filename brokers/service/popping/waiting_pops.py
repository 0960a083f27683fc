"""Pops that wait for a message (PROTOCOL 4.9).

Responsible for: which of them a new message wakes, which ones are out of time, limits. Refuses to
know: sockets, clocks, what a pop reads.

Invariants:
  - a pop waits once or not at all; what wakes, expires or is dropped no longer waits;
  - a message wakes one pop of its queue and one of all queues for each group, of those whose tags
    it has, and the one that expires first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brokers.service.popping.names import RETRY_V1, RETRY_V2, retry_topic
from brokers.service.popping.pop_request import EVERY_QUEUE

WAITING_MAX = 100_000
WAITING_PER_KEY_MAX = 1_024

Key = tuple[str, str, int]  # topic, group, queue id


@dataclass(slots=True, eq=False)
class Waiting:
    """One request that waits; `request` is the caller's own, unread here. `codes`: tags that count,
    None: all.
    """

    key: Key
    deadline_ms: int
    connection_id: int
    request: object
    codes: frozenset[int] | None = None
    waits: bool = False


class WaitingPops:
    """All that wait. `last_first`: the one that expires last is woken first, as notifications
    are.
    """

    def __init__(self, *, last_first: bool = False) -> None:
        self._last_first = last_first
        self._keys: dict[Key, dict[Waiting, None]] = {}
        self._groups: dict[str, dict[str, set[int]]] = {}  # topic -> group -> queue ids
        self._retries: dict[str, tuple[str, str]] = {}  # retry topic -> topic, group
        self._deadlines: list[tuple[int, int, Waiting]] = []
        self._of_connections: dict[int, dict[Waiting, None]] = {}
        self._sequence = 0
        self.count = 0

    def hold(self, one: Waiting) -> bool:
        """False: too many wait, it is to be answered at once."""
        if self.count >= WAITING_MAX or self.waiting(one.key) > WAITING_PER_KEY_MAX:
            return False
        topic, group, queue_id = one.key
        one.waits = True
        self._keys.setdefault(one.key, {})[one] = None
        groups = self._groups.setdefault(topic, {})
        if group not in groups:
            for kind in (RETRY_V1, RETRY_V2):
                self._retries[retry_topic(group, topic, kind)] = topic, group
        groups.setdefault(group, set()).add(queue_id)
        self._of_connections.setdefault(one.connection_id, {})[one] = None
        self.count += 1
        self._sequence += 1
        heapq.heappush(self._deadlines, (one.deadline_ms, self._sequence, one))
        if len(self._deadlines) > 2 * self.count + 1_000:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waits]
            heapq.heapify(self._deadlines)
        return True

    def waiting(self, key: Key) -> int:
        """How many wait under this key."""
        return len(self._keys.get(key, ()))

    def watches(self, topic: str) -> bool:
        """Whether a message of this topic may wake somebody."""
        return topic in self._groups or topic in self._retries

    def came(self, topic: str, queue_id: int, takes: Callable[[Waiting], bool]) -> list[Waiting]:
        """A message of this queue can be read: those that it wakes. `takes(one)`: whether it has
        the tags of one.
        """
        retried = self._retries.get(topic)
        if retried is not None:
            # whoever waits for a queue of the topic gets copies of any
            for queue in sorted(self._groups[retried[0]][retried[1]]):
                if found := self._first_of(retried, queue, takes):
                    return found
            return []
        woken = []
        for group in list(self._groups.get(topic, ())):
            for queue in (EVERY_QUEUE, queue_id):
                woken += self._first_of((topic, group), queue, takes)
        return woken

    def more(self, topic: str, group: str, queue_id: int) -> list[Waiting]:
        """Messages are left for this group: the next of those that wait for them."""
        found = self._first_of((topic, group), queue_id, lambda _: True)
        return found or self._first_of((topic, group), EVERY_QUEUE, lambda _: True)

    def _first_of(
        self, of: tuple[str, str], queue_id: int, takes: Callable[[Waiting], bool]
    ) -> list[Waiting]:
        waiting = self._keys.get((*of, queue_id), ())
        fits = [one for one in waiting if takes(one)]
        if not fits:
            return []
        choose = max if self._last_first else min
        return self._release([choose(fits, key=lambda one: one.deadline_ms)])

    def expired(self, now_ms: int) -> list[Waiting]:
        """Those whose time is over."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            one = heapq.heappop(self._deadlines)[2]
            if one.waits and one.deadline_ms <= now_ms:
                late += self._release([one])
        return late

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits for these any more."""
        self._release(list(self._of_connections.get(connection_id, ())))

    def release_all(self) -> list[Waiting]:
        """Everybody, for a change of role."""
        return self._release([one for waiting in self._keys.values() for one in waiting])

    def _release(self, ones: Iterable[Waiting]) -> list[Waiting]:
        released = []
        for one in ones:
            one.waits = False
            topic, group, queue_id = one.key
            waiting = self._keys[one.key]
            del waiting[one]
            if not waiting:
                del self._keys[one.key]
                self._forget(topic, group, queue_id)
            left = self._of_connections[one.connection_id]
            del left[one]
            if not left:
                del self._of_connections[one.connection_id]
            self.count -= 1
            released.append(one)
        return released

    def _forget(self, topic: str, group: str, queue_id: int) -> None:
        groups = self._groups[topic]
        groups[group].discard(queue_id)
        if groups[group]:
            return
        del groups[group]
        for kind in (RETRY_V1, RETRY_V2):
            self._retries.pop(retry_topic(group, topic, kind), None)
        if not groups:
            del self._groups[topic]
