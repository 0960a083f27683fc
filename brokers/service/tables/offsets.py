"""Consumer offsets: how far each group has read each queue (PROTOCOL 3.9, 4.6).

Responsible for: the table, where groups without an offset began (`group_starts`), its version, its
JSON as a whole and in pieces, what changed since. Refuses to know: files, sockets, clocks, what a
queue holds.

Every change of an entry has a number, counted up for as long as the process lives. Who copies the
table names the last number it has, and gets the entries that changed since: the first copy and
every later one are the same question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.subscription_groups import group_refusal
from brokers.service.tables.topics import QUEUES_PER_TOPIC_MAX, name_refusal

GROUP_TOPICS_MAX = 200_000
# With all queues counted at their longest: room for 200,000 groups and topics of 8 queues each,
# with long names.
TABLE_BYTES_MAX = 128 * 1_048_576
KEY_BYTES, QUEUE_BYTES = 6, 29  # `"":{},` and `"65534":9223372036854775807,`
# Beginnings take no room that offsets need.
STARTS_BYTES_MAX = TABLE_BYTES_MAX // 2
# A piece is written on the loop that serves everybody: a few thousand entries.
PIECE_BYTES = 262_144
SEPARATOR = "@"


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries that changed, the longest unchanged first. `up_to`: number of the last change in it;
    `more`: others follow.
    """

    body: bytes
    up_to: int
    more: bool


class ConsumerOffsets:
    """topic@group -> queue id -> next offset to consume. `dirty` is True while a change is not on
    disk yet.

    `line` names this process's numbers of changes: those of another one say nothing about them.
    """

    def __init__(self, version: DataVersion | None = None) -> None:
        self._table: dict[str, dict[int, int]] = {}
        # queues without an offset: where the group began
        self._starts: dict[str, dict[int, int]] = {}
        self._begun_here: set[tuple[str, int]] = set()  # those of this mastership
        self._bytes = 0
        self._changes = 0
        self._changed: dict[str, int] = {}  # key -> number of its last change, in their order
        self._texts: dict[str, bytes] = {}  # keys as they were last written down
        self._start_texts: dict[str, bytes] = {}
        self.line = ""
        self.version = version or DataVersion()
        self.dirty = False
        self.left_out: tuple[str, ...] = ()  # keys of what was read and are no offsets

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall_ms: int) -> bool:
        """Store an offset, also one lower than before; a negative one (Go sends -1) says nothing.
        False: not stored, also where the names cannot be or a new queue has no room in the table.
        """
        if offset < 0 or not 0 <= queue_id < QUEUES_PER_TOPIC_MAX:
            return False
        key = topic + SEPARATOR + group
        queues = self._table.get(key)
        if queues is None or queue_id not in queues:
            fresh = QUEUE_BYTES if queues is not None else QUEUE_BYTES + KEY_BYTES + len(key)
            if self._bytes + fresh > TABLE_BYTES_MAX:
                return False
            if queues is None:
                if (
                    len(self._table) >= GROUP_TOPICS_MAX
                    or group_refusal(group)
                    or name_refusal(topic)
                ):
                    return False
                queues = self._table[key] = {}
            self._bytes += fresh
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            if queue_id in self._starts.get(key, ()):
                self._read(key)
            self._note(key)
            self.version = self.version.changed(wall_ms)
        return True

    def begin(self, group: str, topic: str, places: Mapping[int, int]) -> bool:
        """Note where a group begins to read queues, those that have no offset and no such note;
        False when nothing is new or the table has no room.
        """
        key = topic + SEPARATOR + group
        noted = self._starts.get(key, {})
        fresh = {
            queue: place
            for queue, place in places.items()
            if queue not in noted and queue not in self._table.get(key, {})
        }
        room = self._bytes + _bytes_of(key, fresh) <= STARTS_BYTES_MAX and (
            noted or len(self._starts) < GROUP_TOPICS_MAX
        )
        if not fresh or not room or group_refusal(group) or name_refusal(topic):
            return False
        self._hold(self._starts, key, {**noted, **fresh})
        self._begun_here.update((key, queue) for queue in fresh)
        self._note(key)
        return True

    def has_begun(self, group: str, topic: str, queue_id: int) -> bool:
        return queue_id in self._starts.get(topic + SEPARATOR + group, {})

    def start(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group began to read this queue under an earlier mastership, None when it did
        not.
        """
        key = topic + SEPARATOR + group
        return (
            None if (key, queue_id) in self._begun_here else self._starts.get(key, {}).get(queue_id)
        )

    def mastership_began(self) -> None:
        """What began until now, began earlier: its offsets may have been lost with the former
        master.
        """
        self._begun_here.clear()

    def _read(self, key: str) -> None:
        """Queues of this entry have offsets now: where the group began in them is of no more
        use.
        """
        if noted := self._starts.get(key):
            self._begun_here.difference_update(
                (key, queue) for queue in noted.keys() & self._table[key].keys()
            )
            self._hold(
                self._starts,
                key,
                {queue: place for queue, place in noted.items() if queue not in self._table[key]},
            )

    def _hold(self, table: dict[str, dict[int, int]], key: str, queues: dict[int, int]) -> None:
        self._bytes += _bytes_of(key, queues) - _bytes_of(key, table.get(key, {}))
        if queues:
            table[key] = queues
        else:
            table.pop(key, None)

    def _note(self, key: str) -> None:
        self._changes += 1
        self._changed.pop(key, None)  # to the end
        self._changed[key] = self._changes
        self._texts.pop(key, None)
        self._start_texts.pop(key, None)
        self.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The stored offset, None when there is none."""
        queues = self._table.get(topic + SEPARATOR + group)
        return None if queues is None else queues.get(queue_id)

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has an offset."""
        end = SEPARATOR + group
        return [key[: -len(end)] for key in self._table if key.endswith(end)]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have an offset in the topic."""
        begin = topic + SEPARATOR
        return [key[len(begin) :] for key in self._table if key.startswith(begin)]

    def furthest(self) -> dict[tuple[str, int], int]:
        """(topic, queue id) -> the highest offset that a group has there."""
        found: dict[tuple[str, int], int] = {}
        for name, queues in self._table.items():
            topic = name.partition(SEPARATOR)[0]
            for queue_id, offset in queues.items():
                if offset > found.get((topic, queue_id), 0):
                    found[topic, queue_id] = offset
        return found

    def has(self, group: str, topic: str) -> bool:
        """Whether the group has an offset of some queue of this topic."""
        return topic + SEPARATOR + group in self._table

    def remove_topic(self, topic: str) -> None:
        self._remove(0, topic)

    def remove_group(self, group: str) -> None:
        self._remove(2, group)

    def smallest(self, topic: str, without: Collection[str]) -> dict[int, int]:
        """Queue id -> smallest offset of all groups but these."""
        found: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group not in without:
                for queue_id, offset in self._table[topic + SEPARATOR + group].items():
                    found[queue_id] = min(offset, found.get(queue_id, offset))
        return found

    def entries(self) -> list[tuple[str, str, Mapping[int, int]]]:
        """(topic, group, queue id -> offset)."""
        return [(*key.split(SEPARATOR, 1), queues) for key, queues in self._table.items()]  # type: ignore[misc]

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> offset."""
        return self._table.get(topic + SEPARATOR + group, {})

    def _remove(self, part: int, name: str) -> None:
        for key in [
            key for key in (*self._table, *self._starts) if key.partition(SEPARATOR)[part] == name
        ]:
            self._begun_here.difference_update(
                [(key, queue) for queue in self._starts.get(key, {})]
            )
            self._hold(self._table, key, {})
            self._hold(self._starts, key, {})
            self._changed.pop(key, None)
            self._texts.pop(key, None)
            self._start_texts.pop(key, None)
            self.dirty = True

    # -- copies ------------------------------------------------------------------------------------

    def text(self, *, for_java: bool = False) -> bytes:
        """`consumerOffset.json`, and for Java the body of 43; queue ids as quoted keys, which Java
        accepts. Only entries that changed are written anew.
        """
        for key in self._table.keys() - self._texts.keys():
            self._text(key)
        return self._document(self._texts.values(), () if for_java else self._starts)

    def text_of(self, group: str, topic: str) -> bytes:
        """Offsets of this group in that topic, and where it began to read: the body of 19014."""
        return self._document_of((topic + SEPARATOR + group,))

    def piece(self, line: str, after: int, bytes_max: int = PIECE_BYTES) -> Piece:
        """What changed after change number `after` of that line; of another line than this one,
        everything.
        """
        after = after if line == self.line else 0
        keys = []
        for key, number in reversed(self._changed.items()):
            if number <= after:
                break
            keys.append(key)
        told: list[str] = []
        size, up_to = 0, self._changes
        for key in reversed(keys):
            length = len(self._text(key)) + _bytes_of(key, self._starts.get(key, {}))
            if told and size + length > bytes_max:
                return Piece(self._document_of(told), up_to, True)
            told.append(key)
            size, up_to = size + length, self._changed[key]
        return Piece(self._document_of(told), self._changes, False)

    def _document_of(self, keys: Iterable[str]) -> bytes:
        return self._document(
            [self._text(key) for key in keys if key in self._table],
            [key for key in keys if key in self._starts],
        )

    def _document(self, texts: Iterable[bytes], begun: Iterable[str]) -> bytes:
        version = fastjson.dumps(self.version.to_wire())
        starts = b",".join([self._start_text(key) for key in begun])
        more = b',"regentStarts":{%b}' % starts if starts else b""
        return b'{"dataVersion":%b,"offsetTable":{%b}%b}' % (version, b",".join(texts), more)

    def _text(self, key: str) -> bytes:
        """Empty without an offset."""
        if key not in self._table:
            return b""
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _text_of(key, self._table[key])
        return text

    def _start_text(self, key: str) -> bytes:
        text = self._start_texts.get(key)
        if text is None:
            text = self._start_texts[key] = _text_of(key, self._starts[key])
        return text

    @classmethod
    def from_wire(cls, fields: object) -> ConsumerOffsets:
        """Offsets out of decoded JSON, keys quoted or not, what is no valid entry in its
        `left_out`; `ValueError` when it is no offset table. However many there are: what was stored
        is read.
        """
        table = fields.get("offsetTable") if isinstance(fields, Mapping) else None
        if not isinstance(table, Mapping):
            raise ValueError("no consumer offset table")
        assert isinstance(fields, Mapping)
        offsets = cls(DataVersion.from_wire(fields.get("dataVersion")))
        starts = fields.get("regentStarts")
        left_out = []
        for into, entries in (
            (offsets._table, table),
            (offsets._starts, starts if isinstance(starts, Mapping) else {}),
        ):
            for key, queues in entries.items():
                try:
                    checked = {int(queue): _offset(value) for queue, value in queues.items()}
                    offsets._hold(into, _checked_key(key), checked)
                    offsets._note(key)
                except (AttributeError, ValueError):
                    left_out.append(str(key))
        offsets.left_out, offsets.dirty = tuple(left_out), False
        return offsets

    def take_new(self, other: ConsumerOffsets) -> None:
        """Offsets and beginnings of queues of which nothing is here. What is here may be newer than
        such a word.
        """
        for key, queues in other._table.items():
            mine = self._table.get(key, {})
            if queues.keys() - mine.keys():
                self._hold(self._table, key, {**queues, **mine})
                self._note(key)
            self._read(key)
        self._take_starts(other)

    def adopt(self, other: ConsumerOffsets) -> bool:
        """Take what the master knows; False when it was known already. What the master does not
        know stays: it may lead with less than its predecessor had (design S19), and who asks this
        replica later must not begin at the end.
        """
        changed = False
        for key, queues in other._table.items():
            mine = self._table.get(key)
            if mine != queues:
                merged = queues if mine is None else {**mine, **queues}
                if merged != mine:
                    self._hold(self._table, key, merged)
                    self._note(key)
                    changed = True
            self._read(key)
        changed |= self._take_starts(other)
        # A Java master moves its version only now and then: the tables decide, not the versions.
        if not changed and self.version == other.version:
            return False
        self.version, self.dirty = other.version, True
        return True

    def _take_starts(self, other: ConsumerOffsets) -> bool:
        changed = False
        for key, places in other._starts.items():
            before = self._starts.get(key, {})
            noted = {
                **before,
                **{
                    queue: place
                    for queue, place in places.items()
                    if queue not in self._table.get(key, {})
                },
            }
            if noted != before:
                self._hold(self._starts, key, noted)
                self._note(key)
                changed = True
        return changed


def _bytes_of(key: str, queues: Mapping[int, int]) -> int:
    return KEY_BYTES + len(key) + QUEUE_BYTES * len(queues) if queues else 0


def _text_of(key: str, queues: Mapping[int, int]) -> bytes:
    entries = ",".join([f'"{queue}":{offset}' for queue, offset in queues.items()])
    return f'"{key}":{{{entries}}}'.encode("ascii")  # names need no escapes


def _checked_key(key: str) -> str:
    topic, separator, group = key.partition(SEPARATOR)
    if not separator or name_refusal(topic) or group_refusal(group):
        raise ValueError("no topic and group")
    return key


def _offset(value: object) -> int:
    if type(value) is not int:
        raise ValueError("an offset is no number")
    return value
