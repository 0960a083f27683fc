"""Locks of queues for orderly consumers (PROTOCOL 4.8; codes 41, 42).

Responsible for: who holds a queue of a group, for how long, and how many locks there may be.
Refuses to know: clocks, sockets, whether a queue exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LOCK_EXPIRES_MS = 60_000
LOCKS_MAX = 200_000
LOCKS_PER_GROUP_MAX = 20_000
# A slave's connection carries the locks of many clients.
LOCKS_PER_CONNECTION_MAX = 40_000
# Looking for locks that are over goes through all of them.
EXPIRE_EVERY_MS = 1_000

Queue = tuple[str, str, int]  # broker name, topic, queue id


class QueueLocks:
    """(group, queue) -> the client that holds it, since when, and the connection it asked on."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, Queue], tuple[str, int, int]] = {}
        self._of_groups: dict[str, set[Queue]] = {}
        self._of_connections: Counter[int] = Counter()
        self._expire_at_ms: int | None = None

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[Queue],
        now_ms: int,
        connection_id: int = 0,
    ) -> list[Queue]:
        """Take or renew locks; the queues this client holds afterwards. One that there is no room
        for is not held.
        """
        held = []
        for queue in queues:
            key = (group, queue)
            owner = self._locks.get(key)
            if owner is not None and owner[0] != client_id and now_ms - owner[1] <= LOCK_EXPIRES_MS:
                continue
            if owner is None or owner[2] != connection_id:
                if self._is_full(group, connection_id):
                    self._expire(now_ms)
                    if self._is_full(group, connection_id):
                        continue
                self._drop(key)
                self._of_groups.setdefault(group, set()).add(queue)
                self._of_connections[connection_id] += 1
            self._locks[key] = (client_id, now_ms, connection_id)
            held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        for queue in queues:
            owner = self._locks.get((group, queue))
            if owner is not None and owner[0] == client_id:
                self._drop((group, queue))

    def holder(self, group: str, queue: Queue, now_ms: int) -> str | None:
        """The client whose lock of this queue has not expired."""
        owner = self._locks.get((group, queue))
        return None if owner is None or now_ms - owner[1] > LOCK_EXPIRES_MS else owner[0]

    def holds_any(self, group: str, now_ms: int) -> bool:
        """Whether a client of this group holds a queue now."""
        return any(
            now_ms - self._locks[group, queue][1] <= LOCK_EXPIRES_MS
            for queue in self._of_groups.get(group, ())
        )

    def _is_full(self, group: str, connection_id: int) -> bool:
        return (
            len(self._locks) >= LOCKS_MAX
            or len(self._of_groups.get(group, ())) >= LOCKS_PER_GROUP_MAX
            or self._of_connections[connection_id] >= LOCKS_PER_CONNECTION_MAX
        )

    def _expire(self, now_ms: int) -> None:
        if self._expire_at_ms is not None and now_ms < self._expire_at_ms:
            return
        self._expire_at_ms = now_ms + EXPIRE_EVERY_MS
        for key in [
            key for key, owner in self._locks.items() if now_ms - owner[1] > LOCK_EXPIRES_MS
        ]:
            self._drop(key)

    def _drop(self, key: tuple[str, Queue]) -> None:
        owner = self._locks.pop(key, None)
        if owner is None:
            return
        group, queue = key
        queues = self._of_groups[group]
        queues.discard(queue)
        if not queues:
            del self._of_groups[group]
        self._of_connections[owner[2]] -= 1
        if not self._of_connections[owner[2]]:
            del self._of_connections[owner[2]]
