"""Pulls that wait for a message (PROTOCOL 4.5, long polling).

Responsible for: which held pulls a dispatch wakes, which ones are out of time, limits.
Refuses to know: sockets, clocks, what a pull reads.

Invariants:
  - a pull is held once or not at all; what wakes, expires or is dropped is no longer held;
  - of one asker at most one pull is held: a newer one releases the older;
  - a wake never depends on tags: the reader looks again and may hold the pull anew at the place it
    got to.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

HELD_PULLS_MAX = 100_000
HELD_PER_CONNECTION_MAX = 8_192


@dataclass(slots=True, eq=False)
class HeldPull:
    """One pull on hold: it reads `offset` of a queue next; `request` is the caller's own, unread
    here. `asker` names the client on that connection and its group; None for one that cannot ask
    twice.
    """

    topic: str
    queue_id: int
    offset: int
    deadline_ms: int
    connection_id: int
    request: object
    asker: tuple[str, ...] | None = None
    held: bool = False
    in_deadlines: bool = False


class HeldPulls:
    """All pulls on hold."""

    def __init__(self) -> None:
        # Dictionaries for their order: a pull that goes is found without looking through the
        # others.
        self._queues: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_askers: dict[tuple[object, ...], HeldPull] = {}
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._per_connection: dict[int, dict[HeldPull, None]] = {}
        self._sequence = 0
        self.count = 0

    def hold(self, pull: HeldPull) -> bool:
        """Keep a pull; False when there are too many, the caller then answers at once."""
        if (
            self.count >= HELD_PULLS_MAX
            or len(self._per_connection.get(pull.connection_id, ())) >= HELD_PER_CONNECTION_MAX
        ):
            return False
        pull.held = True
        self._queues.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        if pull.asker is not None:
            self._of_askers[_who(pull)] = pull
        if not pull.in_deadlines:
            self._sequence += 1
            pull.in_deadlines = True
            heapq.heappush(self._deadlines, (pull.deadline_ms, self._sequence, pull))
        self._per_connection.setdefault(pull.connection_id, {})[pull] = None
        self.count += 1
        self._drop_stale_deadlines()
        return True

    def older_of(self, pull: HeldPull) -> HeldPull | None:
        """The pull that the same asker has on hold for that queue, no longer held: to be answered
        with what is there.
        """
        older = self._of_askers.get(_who(pull)) if pull.asker is not None else None
        return None if older is None else self._release([older])[0]

    def has_newer(self, pull: HeldPull) -> bool:
        """Whether the same asker has asked again since `pull`, which is not held now, was
        released.
        """
        return pull.asker is not None and _who(pull) in self._of_askers

    def dispatched(self, topic: str, queue_id: int, max_offset: int) -> list[HeldPull]:
        """The queue now ends at `max_offset`: the pulls that have something to look at."""
        waiting = self._queues.get((topic, queue_id))
        if not waiting:
            return []
        return self._release(pull for pull in list(waiting) if pull.offset < max_offset)

    def expired(self, now_ms: int) -> list[HeldPull]:
        """The pulls whose time is over, to be answered with what is there."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            pull = heapq.heappop(self._deadlines)[2]
            pull.in_deadlines = False
            if pull.held:
                late.append(pull)
        return self._release(late)

    def beyond(self, end_of: Callable[[str, int], int]) -> list[HeldPull]:
        """The pulls that wait beyond the end of their queue."""
        ends = {key: end_of(*key) for key in self._queues}
        return self._release(
            [
                pull
                for key, waiting in self._queues.items()
                for pull in waiting
                if pull.offset > ends[key]
            ]
        )

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits for these any more."""
        self._release(list(self._per_connection.get(connection_id, ())))

    def release_all(self) -> list[HeldPull]:
        """Every held pull, for a change of role."""
        return self._release([pull for waiting in self._queues.values() for pull in waiting])

    def _release(self, pulls: Iterable[HeldPull]) -> list[HeldPull]:
        released = []
        for pull in pulls:
            pull.held = False
            key = (pull.topic, pull.queue_id)
            waiting = self._queues[key]
            del waiting[pull]
            if not waiting:
                del self._queues[key]
            if pull.asker is not None:
                self._of_askers.pop(_who(pull), None)
            left = self._per_connection[pull.connection_id]
            del left[pull]
            if not left:
                del self._per_connection[pull.connection_id]
            self.count -= 1
            released.append(pull)
        return released

    def _drop_stale_deadlines(self) -> None:
        # Released pulls stay in the heap until their time; without this a busy queue would fill it.
        if len(self._deadlines) > 2 * self.count + 1_000:
            for entry in self._deadlines:
                entry[2].in_deadlines = entry[2].held
            self._deadlines = [entry for entry in self._deadlines if entry[2].held]
            heapq.heapify(self._deadlines)


def _who(pull: HeldPull) -> tuple[object, ...]:
    return pull.connection_id, pull.asker, pull.topic, pull.queue_id
