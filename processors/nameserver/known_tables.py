"""Topic tables that were decoded before, found again by their text.

After an election every broker of a set registers at once, with the topics they all had before and
another version in front.

Responsible for: taking a registration's body apart where the version ends, and never taking two
texts for one. Refuses to know: what a topic is.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Generic, TypeVar

TABLES_MAX = 64
# Smaller ones are decoded as fast as they are recognised.
TEXT_BYTES_MIN = 16 * 1024
# As this project's brokers write it; what stands in front of the topics is the version alone.
_HEAD = re.compile(
    rb'\{"filterServerList":\[\],"topicConfigSerializeWrapper":\{"dataVersion":(\{[^{}\\]*\}),'
    rb'"mappingDataVersion":\{[^{}\\]*\},"topicConfigTable":'
)
# A name that comes twice: the later one counts, so such a rest says something of the version too.
_TWICE = (b'"dataVersion"', b'"topicConfigSerializeWrapper"')

Table = TypeVar("Table", bound=Mapping[str, object])


class KnownTables(Generic[Table]):
    """The newest tables. They are shared: nobody may change one."""

    def __init__(self, limit: int = TABLES_MAX) -> None:
        self._limit = limit
        self._tables: OrderedDict[bytes, Table] = OrderedDict()

    @staticmethod
    def taken_apart(body: bytes) -> tuple[bytes, bytes] | None:
        """(text of the version, mark of the rest); None for a body of another form."""
        head = _HEAD.match(body) if len(body) >= TEXT_BYTES_MIN else None
        return (
            None
            if head is None
            else (head.group(1), blake2b(memoryview(body)[head.end() :], digest_size=16).digest())
        )

    def get(self, mark: bytes) -> Table | None:
        found = self._tables.get(mark)
        if found is not None:
            self._tables.move_to_end(mark)
        return found

    def keep(self, mark: bytes, body: bytes, table: Table) -> None:
        """`table` is what the rest of `body` holds."""
        head = _HEAD.match(body)
        if head is None or any(body.find(name, head.end()) >= 0 for name in _TWICE):
            return
        self._tables[mark] = table
        while len(self._tables) > self._limit:
            self._tables.popitem(last=False)
