"""The version number that topic, group and offset tables carry (PROTOCOL 3.9).

Responsible for: how it moves and how it looks on the wire. Refuses to know: what it is the version
of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# What a table reaches that changes a million times a second for eight years. A counter beyond it
# was made up.
COUNTER_MAX = 2**48


@dataclass(frozen=True, slots=True)
class DataVersion:
    """`state_version` is the master epoch in controller mode; `timestamp_ms` the time of the last
    change.
    """

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def changed(self, wall_ms: int, state_version: int | None = None) -> DataVersion:
        """The version after one more change; a mastership passes its epoch, others keep what they
        have.
        """
        kept = self.state_version if state_version is None else state_version
        return DataVersion(kept, wall_ms, self.counter + 1)

    def to_wire(self) -> dict[str, int]:
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    @classmethod
    def from_wire(cls, fields: object) -> DataVersion:
        """The version in a decoded JSON body; what is missing or no number counts as 0, as in
        Java.
        """
        if not isinstance(fields, Mapping):
            return cls()
        counter = _number(fields, "counter")
        within = counter if 0 <= counter <= COUNTER_MAX else 0
        return cls(_number(fields, "stateVersion"), _number(fields, "timestamp"), within)


def _number(fields: Mapping[str, object], key: str) -> int:
    value = fields.get(key, 0)
    return value if type(value) is int else 0
