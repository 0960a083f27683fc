"""What orderly consumers were told of locks, and whether two of them can hold one queue.

Responsible for: the promises of PROTOCOL 4.8: one holder at each master, and one client at a time
that may believe to be it, whoever leads. Refuses to know: how brokers keep them.

Locks are in memory. A member that starts anew and leads before it has copied a table knows of none:
then what clients believe is over for this judge, as it is for RocketMQ at every change of master.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tests.simulation.services.observed import Copied
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.services.member import Member
    from tests.simulation.services.realm import Realm

LOCK_GROUP = "orderly"
EXPIRES_MS, BELIEVED_MS = 60_000, 30_000


class LockPromises:
    """All of one world."""

    def __init__(self, realm: Realm) -> None:
        self.realm, self.world = realm, realm.world
        self._given: dict[tuple[int, int, int], tuple[str, int]] = {}
        self._believed: dict[int, dict[str, int]] = {}  # queue -> client -> since when

    # -- what a master gives -----------------------------------------------------------------------

    def watch(self, member: Member) -> None:
        """A new life: which locks it gives is looked at."""
        locks = member.serving.service.locks.locks
        take, give = locks.lock, locks.unlock

        def lock(group: str, client: str, queues: object, now_ms: int, connection: int) -> object:
            held = take(group, client, queues, now_ms, connection)  # type: ignore[arg-type]
            for queue in held:
                self._locked(member, client, queue[2])
            return held

        def unlock(group: str, client: str, queues: Sequence[tuple[str, str, int]]) -> None:
            give(group, client, queues)
            for queue in queues:
                name = member.number, member.life, queue[2]
                if self._given.get(name, ("", 0))[0] == client:
                    del self._given[name]

        locks.lock, locks.unlock = lock, unlock  # type: ignore[assignment, method-assign]

    def _locked(self, member: Member, client: str, queue_id: int) -> None:
        name = member.number, member.life, queue_id
        owner, since_ms = self._given.get(name, (client, 0))
        if not member.leads:
            raise InvariantBroken(f"{member.name} locks queue {queue_id} and does not lead")
        if owner != client and self.world.now_ms - since_ms <= EXPIRES_MS:
            raise InvariantBroken(f"queue {queue_id} is locked for {client}, and {owner} holds it")
        self._given[name] = client, self.world.now_ms
        self.world.count("lock.taken")

    def promoted(self, member: Member, copied: Copied) -> None:
        """A member leads; in an earlier mastership of this life it gave locks itself."""
        for name in [name for name in self._given if name[:2] == (member.number, member.life)]:
            del self._given[name]
        if not copied.has_locks:
            self.world.count("lock.forgotten", bool(self._believed))
            self._believed.clear()
        copied.has_locks = True

    # -- what clients believe ----------------------------------------------------------------------

    def gives_back(self, client: str, queues: Collection[int]) -> None:
        """It reads them no more, and says so."""
        for queue_id in queues:
            self._believed.get(queue_id, {}).pop(client, None)

    def told(
        self, client: str, asked: Collection[int], held: Collection[int], asked_ms: int
    ) -> None:
        """Of these it was told that it holds some."""
        self.gives_back(client, set(asked) - set(held))
        for queue_id in held:
            known = self._believed.setdefault(queue_id, {})
            for other, since_ms in known.items():
                if other != client and self.world.now_ms - since_ms <= BELIEVED_MS:
                    raise InvariantBroken(
                        f"{client} holds queue {queue_id}, and {other} was told the same "
                        f"{self.world.now_ms - since_ms} ms ago"
                    )
            self.world.count("lock.renewed" if client in known else "lock.told")
            known[client] = asked_ms
