"""What an answer to a pop says of its messages, and the handle by which a client acknowledges one
(PROTOCOL 4.9).

Responsible for: these texts, both ways, within limits. Refuses to know: which messages there are,
whether a handle is still good.

Handles are not signed: who sends one is believed its times, and everything else is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from brokers.remoting.java_numbers import whole_number
from brokers.service.popping.names import NORMAL, RETRY_V1, RETRY_V2

# Eight fields, some more by proxies: names take the most.
HANDLE_CHARACTERS_MAX = 1_024
FIELDS_MIN = 6  # what an acknowledgement needs; clients of old versions send no more
NAME_CHARACTERS_MAX = 255
# A time that reaches this far is none: a thousand years.
TIME_MAX_MS = 1 << 45


class BadHandle(ValueError):
    """The text is no handle of a popped message."""


@dataclass(frozen=True, slots=True)
class Handle:
    """Times in ms: `pop_ms` since 1970. `start_offset` is the check point's. Both of `queue_id` and
    `offset` are −1 where the text does not say.
    """

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int = -1
    offset: int = -1

    @property
    def visible_ms(self) -> int:
        """When the message comes back."""
        return self.pop_ms + self.invisible_ms

    def text(self) -> str:
        return (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue} "
            f"{self.kind} {self.broker_name} {self.queue_id} {self.offset}"
        )


def parse_handle(text: str) -> Handle:
    """A handle; what stands behind its eighth field is passed over. `BadHandle`."""
    if len(text) > HANDLE_CHARACTERS_MAX:
        raise BadHandle(f"a handle of {len(text)} characters")
    fields = text.split(" ")
    if len(fields) < FIELDS_MIN:
        raise BadHandle(f"getBrokerName fail, extraInfoStrs length {len(fields)}")
    kind, broker = fields[4], fields[5]
    if kind not in (NORMAL, RETRY_V1, RETRY_V2) or not is_name(broker):
        raise BadHandle("the handle names no kind of topic, or no broker")
    times = _number(fields, 1), _number(fields, 2)
    start = _number(fields, 0)
    if start < 0 or not all(0 <= time <= TIME_MAX_MS for time in times):
        raise BadHandle("offset or times of the handle are none")
    return Handle(
        start,
        *times,
        _number(fields, 3, 32),
        kind,
        broker,
        _number(fields, 6, 32) if len(fields) > 6 else -1,
        _number(fields, 7) if len(fields) > 7 else -1,
    )


def is_name(text: str) -> bool:
    """Whether a broker can be called so: the name goes into properties of records."""
    return len(text) <= NAME_CHARACTERS_MAX and text.isprintable()


def _number(fields: Sequence[str], at: int, bits: int = 64) -> int:
    found = whole_number(fields[at], bits)
    if found is None:
        raise BadHandle(f"field {at} of the handle is no number: {fields[at][:40]!r}")
    return found


@dataclass(frozen=True, slots=True)
class Popped:
    """What a pop took of one queue: offsets ascending, `start_offset` the place it read from.
    `counts`: how often a message was given before, of ordered pops (0: left out).
    """

    kind: str
    queue_id: int
    start_offset: int
    offsets: tuple[int, ...]
    counts: Mapping[int, int] | None = None


def start_offset_info(taken: Iterable[Popped]) -> str:
    return ";".join(f"{one.kind} {one.queue_id} {one.start_offset}" for one in taken)


def message_offset_info(taken: Iterable[Popped]) -> str:
    return ";".join(f"{one.kind} {one.queue_id} {','.join(map(str, one.offsets))}" for one in taken)


def order_count_info(taken: Iterable[Popped]) -> str:
    """Per message given before its count, then per queue the least of all its counts."""
    parts = []
    for one in taken:
        counts = one.counts or {}
        parts += [
            f"{one.kind} qo{one.queue_id}%{offset} {counts[offset]}"
            for offset in one.offsets
            if counts.get(offset)
        ]
        least = min((counts.get(offset, 0) for offset in one.offsets), default=0)
        parts.append(f"{one.kind} {one.queue_id} {least}")
    return ";".join(parts)
