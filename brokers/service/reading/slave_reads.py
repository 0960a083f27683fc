"""Which replica a consumer reads from: RocketMQ's slaveReadEnable (PROTOCOL 4.5).

Responsible for: when a consumer that is far behind is sent to a slave, which one, and when it is
sent back. Refuses to know: how messages are read, who is linked, what is in memory.

The rest of the log is as large as memory, or larger: what such a consumer reads comes from a disk,
and pushes out of memory what everybody else reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

MASTER_ID = 0


class SlaveReads:
    """`enabled` and `memory_bytes`, what of the log's end counts as in memory, may be changed at
    any time. `slaves()`: ids of the replicas that are linked, while this one leads; `own_id()`: of
    this one while it follows a master that it knows, else None.
    """

    def __init__(
        self,
        memory_bytes: int = 1 << 62,
        slaves: Callable[[], Iterable[int]] = tuple,
        own_id: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.enabled = False
        self.memory_bytes = memory_bytes
        self._slaves = slaves
        self._own_id = own_id
        self.acts: Callable[[], bool] = lambda: False
        """Whether this replica, a slave, answers for a master that is gone (PROTOCOL 7.2)."""

    @property
    def serves(self) -> bool:
        """Whether this replica, a slave, answers pulls from what it holds."""
        return self.enabled and self._own_id() is not None

    def by_master(self, behind_bytes: int, group: Mapping[str, object] | None) -> int:
        """Where the next pull of a group goes that has so many bytes of the log behind its place:
        to the replica that its settings name, or to one that is linked where that one is not.
        """
        settings = {} if group is None else group
        if not self.enabled:
            return MASTER_ID
        if behind_bytes <= self.memory_bytes:
            return _id(settings.get("brokerId"), MASTER_ID)
        linked = sorted(self._slaves())
        wanted = _id(settings.get("whichBrokerWhenConsumeSlowly"), 1)
        return wanted if wanted in linked or not linked else linked[0]

    def by_slave(self, behind_bytes: int) -> int:
        """The same at a slave: to itself for as long as the consumer is far behind."""
        own = self._own_id()
        return MASTER_ID if own is None or behind_bytes <= self.memory_bytes else own


def _id(value: object, default: int) -> int:
    return value if type(value) is int and value >= 0 else default
