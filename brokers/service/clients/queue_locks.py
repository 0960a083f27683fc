"""Locks of queues for orderly consumers (PROTOCOL 4.8; codes 41, 42).

Responsible for: who holds a queue of a group, for how long, and how many locks there may be; what a
slave takes over of them, and how long they bind it when it leads.
Refuses to know: clocks, sockets, whether a queue exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

LOCK_EXPIRES_MS = 60_000
# So long a client believes in a lock that it could not renew.
BELIEVED_MS = 30_000
LOCKS_MAX = 200_000
LOCKS_PER_GROUP_MAX = 20_000
# A slave's connection carries the locks of many clients.
LOCKS_PER_CONNECTION_MAX = 40_000
# Looking for locks that are over goes through all of them.
EXPIRE_EVERY_MS = 1_000
_OF_A_MASTER = -1
"""In place of the connection: a lock that this broker did not give, and whose renewals it does not
hear of.
"""

Queue = tuple[str, str, int]  # broker name, topic, queue id


class QueueLocks:
    """(group, queue) -> the client that holds it, since when, and the connection it asked on.
    `changes` counts how often a queue came to another holder, or to none.
    """

    def __init__(self) -> None:
        self.changes = 0
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
                    self.expire(now_ms)
                    if self._is_full(group, connection_id):
                        continue
            self._hold(key, client_id, now_ms, connection_id)
            held.append(queue)
        return held

    def _hold(self, key: tuple[str, Queue], client_id: str, at_ms: int, connection: int) -> None:
        owner = self._locks.get(key)
        if owner is None or owner[2] != connection:
            self._forget(key)
            self._of_groups.setdefault(key[0], set()).add(key[1])
            self._of_connections[connection] += 1
        if owner is None or owner[0] != client_id:
            self.changes += 1
        self._locks[key] = (client_id, at_ms, connection)

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

    # -- what a slave takes over -------------------------------------------------------------------

    def table(self) -> dict[str, dict[str, list[Queue]]]:
        """Group -> client -> its queues."""
        found: dict[str, dict[str, list[Queue]]] = {}
        for (group, queue), (client_id, _, _) in self._locks.items():
            found.setdefault(group, {}).setdefault(client_id, []).append(queue)
        return found

    def become(self, table: Mapping[str, Mapping[str, Iterable[Queue]]], now_ms: int) -> None:
        """What a master's table says: these were held a moment ago, and no others."""
        told = {
            (group, queue): client_id
            for group, clients in table.items()
            for client_id, queues in clients.items()
            for queue in queues
        }
        for key in self._locks.keys() - told.keys():
            self._drop(key)
        for (group, queue), client_id in told.items():
            self.put(group, queue, client_id, now_ms)

    def put(self, group: str, queue: Queue, client_id: str | None, now_ms: int) -> None:
        """A master says who holds a queue; None: nobody does."""
        key = group, queue
        if client_id is None:
            self._drop(key)
        elif key in self._locks or not self._is_full(group, None):
            self._hold(key, client_id, now_ms, _OF_A_MASTER)

    def lead(self, now_ms: int) -> None:
        """From now on this broker gives locks. Those that were given before bind it as long as
        their clients may believe in them: nobody renews one elsewhere.
        """
        latest_ms = now_ms - (LOCK_EXPIRES_MS - BELIEVED_MS)
        self._locks = {
            key: (
                client_id,
                latest_ms if connection == _OF_A_MASTER else min(since_ms, latest_ms),
                connection,
            )
            for key, (client_id, since_ms, connection) in self._locks.items()
        }

    def _is_full(self, group: str, connection_id: int | None) -> bool:
        """None: a master gave them all."""
        return (
            len(self._locks) >= LOCKS_MAX
            or len(self._of_groups.get(group, ())) >= LOCKS_PER_GROUP_MAX
            or (
                connection_id is not None
                and self._of_connections[connection_id] >= LOCKS_PER_CONNECTION_MAX
            )
        )

    def expire(self, now_ms: int) -> None:
        """Locks that are over go; at most once a second."""
        if self._expire_at_ms is not None and now_ms < self._expire_at_ms:
            return
        self._expire_at_ms = now_ms + EXPIRE_EVERY_MS
        for key in [
            key for key, owner in self._locks.items() if now_ms - owner[1] > LOCK_EXPIRES_MS
        ]:
            self._drop(key)

    def _drop(self, key: tuple[str, Queue]) -> None:
        self.changes += key in self._locks
        self._forget(key)

    def _forget(self, key: tuple[str, Queue]) -> None:
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
