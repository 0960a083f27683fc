"""Outcomes on their way to `regent.outcomes` (design D7).

Responsible for: a bounded, gapless run of applied outcomes, and which of them to publish next, so
that the topic has no hole across changes of the active controller.
Refuses to know: how a record is written, and who is active.

Every controller keeps the run; only the active one takes from it. After a takeover publishing
starts again behind the newest published outcome; repeats are harmless, holes are not. When there
are too many, the oldest are kept, for they leave first; the others are folded again from the log in
time (`outcome_refold`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from events.outcomes import Outcome

BACKLOG_MAX = 200_000
"""Outcomes kept while nobody is known to have published them."""
IN_FLIGHT_MAX = 2_000
STAMP_REACH = 512
"""How far back a late stamp looks for its outcome."""
HOLD_FOR_ACK_MS = 100
"""The acknowledgement of the append may come after the record itself: its stamp is waited for so
long.
"""


@dataclass(slots=True)
class _Entry:
    outcome: Outcome
    phases: dict[str, int] = field(default_factory=dict)
    hold_until_ms: int = 0


class OutcomeBacklog:
    """Invariants: offsets are consecutive; everything below the first entry has been published."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self._sent = 0
        self._ready = False
        self._applied = -1
        self.published_offset = -1
        """Every outcome up to this command offset is in the topic: read there, or acknowledged to
        this controller.
        """
        self._told = -1

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def end(self) -> int:
        """The last offset that is kept, or known to be published when none is."""
        return self._entries[-1].outcome.command_offset if self._entries else self.known_offset

    @property
    def known_offset(self) -> int:
        """How far the topic goes, by hearsay too."""
        return max(self.published_offset, self._told)

    def told(self, published: int) -> None:
        """
        Another controller says how far it is: nothing before that need be kept.

        It proves nothing. Should it be wrong, what is missing in the topic is folded again after a
        takeover.
        """
        self._told = max(self._told, published)
        self._drop(published)

    def preload(self, outcomes: Iterable[Outcome], applied: int = -1) -> None:
        """What bulk catch-up kept beyond the newest published outcome, and how far it applied."""
        for outcome in outcomes:
            self.add(outcome, {}, 0)
        self._applied = max(self._applied, applied)

    def add(self, outcome: Outcome, phases: dict[str, int], hold_until_ms: int) -> None:
        """What has just been applied; not kept without room for it, or for those before it."""
        # Nothing is missing before the first one: where publishing stands is told before it begins.
        is_next = self.end >= self._applied or self._applied < 0
        if is_next and len(self._entries) < BACKLOG_MAX:
            self._entries.append(_Entry(outcome, phases, hold_until_ms))
        self._applied = max(self._applied, outcome.command_offset)

    def missing(self, most: int) -> range:
        """The next offsets to be folded again, at most so many; none while there is enough to go on
        with.
        """
        if not self._ready or self.end >= self._applied or len(self._entries) > IN_FLIGHT_MAX:
            return range(0)
        return range(self.end + 1, min(self.end + most, self._applied) + 1)

    def fill(self, outcomes: Iterable[Outcome]) -> None:
        """What was folded again; anything but the next one came too late to be of use."""
        for outcome in outcomes:
            if outcome.command_offset == self.end + 1:
                self._entries.append(_Entry(outcome))

    def stamp(self, command_id: bytes, phase: str, wall_ms: int) -> None:
        """Add a phase to an outcome that is still held, and let it go."""
        for entry in islice(reversed(self._entries), STAMP_REACH):
            if entry.outcome.command_id == command_id:
                entry.phases.setdefault(phase, wall_ms)
                entry.hold_until_ms = 0
                return

    def stop(self) -> None:
        """No longer active, or the last attempt's fate is unclear: nothing leaves until
        `resume`.
        """
        self._ready = False
        self._sent = 0

    def resume(self, last_published: int) -> None:
        """Go on behind `last_published`; a run that does not reach back that far gives way to one
        that will.
        """
        self._told = -1
        self.trim(last_published)
        if self._entries and self._entries[0].outcome.command_offset > last_published + 1:
            self._entries.clear()
        self._ready, self._sent = True, 0

    def trim(self, published: int) -> None:
        """Everything up to `published` is in the topic."""
        self.published_offset = max(self.published_offset, published)
        self._drop(published)

    def _drop(self, published: int) -> None:
        while self._entries and self._entries[0].outcome.command_offset <= published:
            self._entries.popleft()
            self._sent = max(0, self._sent - 1)

    def take(self, publisher: str, now_ms: int, wall_ms: int) -> list[Outcome]:
        """The outcomes to publish now, in order, at most `IN_FLIGHT_MAX` unconfirmed at a time."""
        taken: list[Outcome] = []
        while self._ready and self._sent < min(len(self._entries), IN_FLIGHT_MAX):
            entry = self._entries[self._sent]
            if entry.hold_until_ms > now_ms:
                break
            entry.hold_until_ms = 0
            taken.append(
                replace(
                    entry.outcome,
                    publisher=publisher,
                    published_at_ms=wall_ms,
                    phases=dict(entry.phases),
                )
            )
            self._sent += 1
        return taken
