"""Publishing outcomes while active (design D7).

Responsible for: asking where the outcomes topic ends after every takeover and every failure, giving
out what comes behind it, having folded again what is not kept, and the words for a digest that
differs.
Refuses to know: how records are written.
"""

from __future__ import annotations

from collections.abc import Sequence

from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.outcome_backlog import HOLD_FOR_ACK_MS, OutcomeBacklog
from processors.fold.folder import Applied

ANSWER_WAIT_MS = 2_000
ASK_AGAIN_MS = 500
FOLD_AGAIN_RECORDS = 5_000
"""At once: a second's work or less, beside which the controller goes on deciding."""


class PublishDesk:
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

    def applied(self, outcome: Outcome, phases: dict[str, int], own: bool) -> list[Effect]:
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
