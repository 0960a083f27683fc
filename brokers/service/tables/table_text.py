"""A topic table written down, for files, replicas and name servers (PROTOCOL
3.9, 4.10).

Responsible for: which reader gets which parts. Refuses to know: topics, versions, how they change.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

_PAGE = (
    b'{"dataVersion":%b,"mappingDataVersion":%b,"topicConfigTable":%b,"topicQueueMappingDetailMap":'
    b"{}}"
)


@dataclass(frozen=True, slots=True)
class TableText:
    """A topic table as JSON, its version apart: a new mastership changes nothing else."""

    version: bytes
    topics: bytes
    dropped: bytes = b"{}"

    def document(self) -> bytes:
        """What `TopicTable.to_wire` gives, written down."""
        return b'{"dataVersion":%b,"topicConfigTable":%b}' % (self.version, self.topics)

    def stored(self) -> bytes:
        """`topics.json` and the body of 19010: with the queues that were dropped."""
        return (b'{"dataVersion":%b,"regentDroppedQueues":%b,"topicConfigTable":%b}') % (
            self.version,
            self.dropped,
            self.topics,
        )

    def page(self) -> bytes:
        """The answer to 21: all topics, and no static ones."""
        return _PAGE % (self.version, self.version, self.topics)

    @property
    def digest(self) -> str:
        """Equal where topics and dropped queues are equal, whatever the version."""
        told = self.topics if self.dropped == b"{}" else self.topics + self.dropped
        return blake2b(told, digest_size=16).hexdigest()
