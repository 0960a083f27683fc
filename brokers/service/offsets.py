"""Consumer offsets: how far each group has read each queue (`broker-wire-and-storage.md` 3.9, 4.6).

Responsible for: the table, its version, its JSON. Refuses to know: files, sockets, clocks, what a queue holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.service.data_version import DataVersion
from brokers.service.subscription_groups import group_refusal
from brokers.service.topics import QUEUES_PER_TOPIC_MAX, name_refusal

GROUP_TOPICS_MAX = 200_000
# The table is copied as one body: with the longest offsets it must fit a frame (16 MiB).
TABLE_BYTES_MAX = 15 * 1_048_576
KEY_BYTES, QUEUE_BYTES = 6, 29  # `"":{},` and `"65534":9223372036854775807,`
SEPARATOR = "@"


class ConsumerOffsets:
    """topic@group -> queue id -> next offset to consume. `dirty` is True while a change is not on disk yet."""

    def __init__(self, version: DataVersion | None = None) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._bytes = 0
        self.version = version or DataVersion()
        self.dirty = False
        self.left_out: tuple[str, ...] = ()  # keys of what was read and are no offsets

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall_ms: int) -> bool:
        """Store an offset, also one lower than before; a negative one (Go sends -1) says nothing. False: not stored, also
        where the names cannot be or a new queue has no room in the table."""
        if offset < 0 or not 0 <= queue_id < QUEUES_PER_TOPIC_MAX:
            return False
        key = topic + SEPARATOR + group
        queues = self._table.get(key)
        if queues is None or queue_id not in queues:
            fresh = QUEUE_BYTES if queues is not None else QUEUE_BYTES + KEY_BYTES + len(key)
            if self._bytes + fresh > TABLE_BYTES_MAX:
                return False
            if queues is None:
                if len(self._table) >= GROUP_TOPICS_MAX or group_refusal(group) or name_refusal(topic):
                    return False
                queues = self._table[key] = {}
            self._bytes += fresh
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.dirty = True
            self.version = self.version.changed(wall_ms)
        return True

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The stored offset, None when there is none."""
        queues = self._table.get(topic + SEPARATOR + group)
        return None if queues is None else queues.get(queue_id)

    def remove_topic(self, topic: str) -> None:
        for key in [key for key in self._table if key.partition(SEPARATOR)[0] == topic]:
            self._bytes -= _bytes_of(key, self._table.pop(key))
            self.dirty = True

    def to_wire(self) -> dict[str, object]:
        """`consumerOffset.json` and the body of 43; queue ids as quoted keys, which Java accepts."""
        table = {key: {str(queue): offset for queue, offset in queues.items()} for key, queues in self._table.items()}
        return {"dataVersion": self.version.to_wire(), "offsetTable": table}

    @classmethod
    def from_wire(cls, fields: object) -> ConsumerOffsets:
        """Offsets out of decoded JSON, keys quoted or not, what is no valid entry in its `left_out`; `ValueError` when it
        is no offset table."""
        table = fields.get("offsetTable") if isinstance(fields, Mapping) else None
        if not isinstance(table, Mapping) or len(table) > GROUP_TOPICS_MAX:
            raise ValueError("no consumer offset table")
        assert isinstance(fields, Mapping)
        offsets = cls(DataVersion.from_wire(fields.get("dataVersion")))
        left_out = []
        for key, queues in table.items():
            try:
                offsets._table[_checked_key(key)] = {int(queue): _offset(value) for queue, value in queues.items()}
            except (AttributeError, ValueError):
                left_out.append(str(key))
        offsets.left_out = tuple(left_out)
        offsets._count()
        return offsets

    def take_over(self, other: ConsumerOffsets) -> bool:
        """Take what the master knows; False when it was known already. What the master does not know stays: it may lead with
        less than its predecessor had (design S19), and who asks this replica later must not begin at the end."""
        changed = False
        for key, queues in other._table.items():
            mine = self._table.get(key)
            if mine != queues:
                merged = queues if mine is None else {**mine, **queues}
                if merged != mine:
                    self._table[key], changed = merged, True
        # A Java master moves its version only now and then: the tables decide, not the versions.
        if not changed and self.version == other.version:
            return False
        self.version, self.dirty = other.version, True
        self._count()
        return True

    def _count(self) -> None:
        self._bytes = sum(_bytes_of(key, queues) for key, queues in self._table.items())


def _bytes_of(key: str, queues: Mapping[int, int]) -> int:
    return KEY_BYTES + len(key) + QUEUE_BYTES * len(queues)


def _checked_key(key: str) -> str:
    topic, separator, group = key.partition(SEPARATOR)
    if not separator or name_refusal(topic) or group_refusal(group):
        raise ValueError("no topic and group")
    return key


def _offset(value: object) -> int:
    if type(value) is not int:
        raise ValueError("an offset is no number")
    return value
