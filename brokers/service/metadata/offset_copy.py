"""How far a slave has copied its master's consumer offsets (43 between replicas of our own kind).

Responsible for: the fields of the next question, and whether more is to be asked. Refuses to know:
offsets, the wire.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.java_numbers import whole_number

# Between replicas of this kind: which numbers of changes, the last one the asker has, the last one
# told, whether to go on.
LINE, AFTER, UP_TO, MORE = (
    "regentOffsetsLine",
    "regentOffsetsAfter",
    "regentOffsetsUpTo",
    "regentOffsetsMore",
)


class OffsetCopy:
    """One slave's copy; another master, or one that was started anew, numbers its changes anew."""

    def __init__(self) -> None:
        self._line, self._up_to = "", 0

    @property
    def wanted(self) -> dict[str, str]:
        """The ext fields of the next question."""
        return {LINE: self._line, AFTER: str(self._up_to)}

    @property
    def tells_changes(self) -> bool:
        """The last master that answered sends changes only: it may be asked often."""
        return self._line != ""

    def is_whole(self, ext: Mapping[str, str]) -> bool:
        """Take note of an answer; False when there is more to ask for. `ValueError` when it makes
        no progress.
        """
        line, up_to = ext.get(LINE, ""), whole_number(ext.get(UP_TO, ""))
        if not line or up_to is None:  # a Java master tells the whole table
            self._line, self._up_to = "", 0
            return True
        more = ext.get(MORE) == "true"
        if more and line == self._line and up_to <= self._up_to:
            raise ValueError(f"offsets up to change {up_to} were asked for already")
        self._line, self._up_to = line, up_to
        return not more
