"""Queues that were taken away on purpose: of topics that were deleted, or set to fewer queues
(design S19).

Responsible for: telling them from queues that only a lost table explains, in files and on the wire
between our own processes. Refuses to know: topics themselves, files.

Their messages stay in the log and in the queues until the log's retention takes them, so that a
topic that is made again goes on behind them: no queue offset is given twice.
"""

from __future__ import annotations

from collections.abc import Mapping

TOPICS_MAX = 20_000


class DroppedQueues:
    """Topic -> how many queues it once had; those that it does not have now were dropped."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: dict[str, int] = dict(counts or {})

    def changed(self, topic: str, before: int, after: int) -> None:
        """A topic had `before` queues and has `after` now; 0: it is deleted."""
        most = max(before, self.counts.pop(topic, 0))
        if after < most:
            self.counts[topic] = most  # the newest last
            if len(self.counts) > TOPICS_MAX:
                del self.counts[next(iter(self.counts))]

    def covers(self, topic: str, queue_id: int) -> bool:
        """This queue was there and somebody took it away."""
        return queue_id < self.counts.get(topic, 0)

    @classmethod
    def from_wire(cls, fields: object) -> DroppedQueues | None:
        """None where nobody says: Java, and releases before this one."""
        if not isinstance(fields, Mapping):
            return None
        valid = [
            (str(topic), count)
            for topic, count in fields.items()
            if type(count) is int and 0 < count <= 65_535
        ]
        return cls(dict(valid[-TOPICS_MAX:]))
