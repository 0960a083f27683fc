"""Commands that came before: so that a retry gets the first outcome and decides nothing (D5).

Responsible for the window of ids. Refuses to know what a repeat is answered with.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct


class FirstOutcome(Struct, frozen=True, gc=False):
    """What the first command of an id led to, kept for its repeats."""

    offset: int
    kind: str
    broker_name: str | None
    accepted: bool
    refusal: str | None
    code: int


class RecentCommands:
    """The ids of the last offsets, each with its first outcome; bounded by the window (D5).

    Invariant: every id decided at `complete_from` or later is here. It never falls, also when
    the window is widened: what was forgotten stays forgotten.
    """

    def __init__(self, complete_from: int = 0) -> None:
        self.complete_from = complete_from
        self._entries: dict[bytes, FirstOutcome] = {}
        # A dict is slow to give its oldest key once many before it are gone.
        self._by_age: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> "RecentCommands":
        """Return a copy that stays as it is while this one goes on."""
        twin = RecentCommands(self.complete_from)
        twin._entries = dict(self._entries)
        twin._by_age = deque(self._by_age)
        return twin

    def get(self, command_id: bytes) -> FirstOutcome | None:
        """Return the first outcome of that id, if it is within the window."""
        return self._entries.get(command_id)

    def items(self) -> Iterator[tuple[bytes, FirstOutcome]]:
        """Return the entries, oldest first."""
        return ((command_id, self._entries[command_id]) for command_id in self._by_age)

    def newest_first(self) -> Iterator[tuple[bytes, FirstOutcome]]:
        """Return the entries, newest first."""
        return ((command_id, self._entries[command_id]) for command_id in reversed(self._by_age))

    def remember(self, command_id: bytes, first: FirstOutcome) -> None:
        """Add the first outcome of an id that is not here yet."""
        self._entries[command_id] = first
        self._by_age.append(command_id)

    def forget_before(self, offset: int) -> None:
        """Drop what is older than `offset`."""
        if offset <= self.complete_from:
            return
        self.complete_from = offset
        while self._by_age and self._entries[self._by_age[0]].offset < offset:
            del self._entries[self._by_age.popleft()]
