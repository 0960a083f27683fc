"""Publishing outcomes while active (design D7).

Responsible for: asking where the outcomes topic ends after every takeover and every failure, giving
out what comes behind it, having folded again what is not kept, and the words for a digest that
differs.
Refuses to know: how records are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from events.outcomes import BACKLOG_MAX, Outcome
from processors.controller import effects as fx
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.fold.folder import Applied

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
        """Another controller says how far it is: nothing before that need be kept.

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
        # Nothing is missing before the first one: where publishing stands is known before it
        # begins.
        is_next = self.end >= self._applied or self._applied < 0
        if is_next and len(self._entries) < BACKLOG_MAX:
            self._entries.append(_Entry(outcome, phases, hold_until_ms))
        self._applied = max(self._applied, outcome.command_offset)

    def missing(self, most: int) -> range:
        """The next offsets to be folded again, a bounded number; none while there is enough to go
        on with.
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


ANSWER_WAIT_MS = 2_000
ASK_AGAIN_MS = 500
FOLD_AGAIN_RECORDS = 5_000
"""At once: a second's work or less, beside which the controller goes on deciding."""


class Outcomes:
    """The outcomes this controller has applied, and how many of them are in the topic."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._backlog = OutcomeBacklog()
        self._token = 0
        self._ask_due_ms: int | None = None
        self._folding_again = False
        self._fold_again_not_before_ms = 0
        # The first outcome that did not get into the topic; later ones may have, and must not hide
        # it.
        self._failed_offset: int | None = None

    @property
    def published_offset(self) -> int:
        """What is proven while this controller publishes, else what the active one says."""
        return (
            self._backlog.published_offset
            if self._context.is_active
            else self._backlog.known_offset
        )

    def preload(self, unpublished: Sequence[Outcome]) -> None:
        """What was applied beyond the newest outcome in the topic; everything before that is
        there.
        """
        offset = self._context.folder.offset
        self._backlog.trim(unpublished[0].command_offset - 1 if unpublished else offset)
        self._backlog.preload(unpublished, offset)

    def after_apply(self, outcome: Outcome, phases: dict[str, int], own: bool) -> list[Effect]:
        """Keep an outcome; an own command's may wait a moment for the acknowledgement of its
        append.
        """
        waits = own and "appended" not in phases
        until_ms = self._context.now_ms + HOLD_FOR_ACK_MS if waits else 0
        self._backlog.add(outcome, phases, until_ms)
        return self.publish()

    def appended(self, command_id: bytes) -> list[Effect]:
        """The acknowledgement came after the record itself."""
        self._backlog.stamp(command_id, "appended", self._context.wall_ms)
        return self.publish()

    def publish(self) -> list[Effect]:
        """What may leave now."""
        context = self._context
        if not context.is_active:
            return []
        taken = self._backlog.take(context.config.controller_id, context.now_ms, context.wall_ms)
        return [fx.Publish(outcome) for outcome in taken] + self._fold_again()

    def _fold_again(self) -> list[Effect]:
        if self._folding_again or self._context.now_ms < self._fold_again_not_before_ms:
            return []
        missing = self._backlog.missing(FOLD_AGAIN_RECORDS)
        self._folding_again = bool(missing)
        return [fx.FoldAgain(missing.start, missing.stop)] if missing else []

    def folded_again(self, outcomes: Sequence[Outcome] | None) -> list[Effect]:
        """The answer to `FoldAgain`; None: the log could not be read, asked again later."""
        self._folding_again = False
        if outcomes is None:
            self._fold_again_not_before_ms = self._context.now_ms + ASK_AGAIN_MS
        self._backlog.fill(outcomes or ())
        return self.publish()

    def start(self) -> list[Effect]:
        """This controller has become active, or must find its place again."""
        self._token += 1
        self._ask_due_ms = self._context.now_ms + ANSWER_WAIT_MS
        return [fx.AskLastPublished(self._token)]

    def stop(self) -> None:
        """Another controller is active."""
        self._failed_offset = None
        self._backlog.stop()
        self._ask_due_ms = None

    def last_published(self, token: int, offset: int | None) -> list[Effect]:
        """The newest published command offset (-1: none); None: not learnt, asked again later."""
        if token != self._token or not self._context.is_active:
            return []
        if offset is None:
            self._ask_due_ms = self._context.now_ms + ASK_AGAIN_MS
            return []
        self._ask_due_ms = None
        # The newest record may be a late repeat of a former leader; what was published before stays
        # published.
        offset = max(offset, self._backlog.published_offset)
        if self._failed_offset is not None:
            offset = min(offset, self._failed_offset - 1)
        self._backlog.resume(offset)
        return self.publish()

    def result(self, command_offset: int, ok: bool) -> list[Effect]:
        """The producer's report; after a failure publishing starts again behind the topic's end."""
        failed = self._failed_offset
        if ok:
            if failed is not None and command_offset > failed:
                # It is published again behind the failed one: repeats are harmless, holes are not.
                return []
            self._failed_offset = None if command_offset == failed else failed
            self._backlog.trim(command_offset)
            return self.publish()
        self._failed_offset = command_offset if failed is None else min(failed, command_offset)
        if self._context.is_active and self._ask_due_ms is None:
            self._backlog.stop()
            self._ask_due_ms = self._context.now_ms + ASK_AGAIN_MS
        return []

    def published_elsewhere(self, offset: int) -> None:
        """The active controller says how far it is; a standby need not keep what lies before."""
        if not self._context.is_active:
            self._backlog.told(min(offset, self._context.folder.offset))

    def tick(self) -> list[Effect]:
        effects: list[Effect] = []
        if self._ask_due_ms is not None and self._context.now_ms >= self._ask_due_ms:
            effects = self.start()
        return effects + self.publish()


def divergence_of(applied: Applied) -> str:
    """The text for a command whose issuer had another digest than this controller at the same
    offset.
    """
    assert applied.record is not None
    envelope = applied.record.envelope
    return (
        f"the command at offset {applied.offset} says that {envelope.issuer} had the digest "
        f"{envelope.applied_digest.hex()} at offset {envelope.applied_offset}; here it is another "
        "one, so one of the two folded another history: run `regent verify` before starting "
        "either again"
    )
