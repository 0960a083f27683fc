"""Locks of queues for orderly consumers (`broker-wire-and-storage.md` 4.8; codes 41, 42).

Responsible for: who holds a queue of a group, for how long. Refuses to know: clocks, sockets, whether a queue exists.
"""

from __future__ import annotations

from collections.abc import Iterable

LOCK_EXPIRES_MS = 60_000
LOCKS_MAX = 200_000

Queue = tuple[str, str, int]  # broker name, topic, queue id


class QueueLocks:
    """(group, queue) -> the client that holds it and since when."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, Queue], tuple[str, int]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[Queue], now_ms: int) -> list[Queue]:
        """Take or renew locks; the queues this client holds afterwards."""
        held = []
        for queue in queues:
            key = (group, queue)
            owner = self._locks.get(key)
            if owner is not None and owner[0] != client_id and now_ms - owner[1] <= LOCK_EXPIRES_MS:
                continue
            if owner is None and len(self._locks) >= LOCKS_MAX:
                self._expire(now_ms)
                if len(self._locks) >= LOCKS_MAX:
                    continue
            self._locks[key] = (client_id, now_ms)
            held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        for queue in queues:
            owner = self._locks.get((group, queue))
            if owner is not None and owner[0] == client_id:
                del self._locks[group, queue]

    def _expire(self, now_ms: int) -> None:
        self._locks = {key: owner for key, owner in self._locks.items() if now_ms - owner[1] <= LOCK_EXPIRES_MS}
