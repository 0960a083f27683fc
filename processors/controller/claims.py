"""Becoming the active controller: forming a cluster on an empty log, claiming leadership (design
D6).

Responsible for: issuing the formation and claims when they are due, and following who leads as the
log says. Refuses to know: what an active controller then does.
"""

from __future__ import annotations

from typing import Protocol

from events.commands import ClaimLeadership
from processors.controller import effects as fx
from processors.controller.commands import CommandDesk
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.leadership import CAUSE_NOT_ABLE
from processors.controller.waiting import PendingCommand, Purpose
from processors.fold.folder import Applied

FORM_STAGGER_MS = 300


class LogReads(Protocol):
    """What this controller knows of its own way to the log."""

    def is_able(self) -> bool: ...
    def is_current(self, since_ms: int) -> bool: ...


class ClaimDesk:
    """Silent until `start`: nobody claims before the bulk of the log is folded."""

    def __init__(self, context: CoreContext, commands: CommandDesk, reads: LogReads) -> None:
        self._context = context
        self._reads = reads
        self._commands = commands
        self._started_ms: int | None = None

    @property
    def is_started(self) -> bool:
        return self._started_ms is not None

    def start(self) -> None:
        """The log has been folded up to its end of a moment ago."""
        context = self._context
        self._started_ms = context.now_ms
        state = context.state
        context.leadership.note_state(state.term, state.leader_id, False, context.now_ms)

    def follow(self, applied: Applied, pending: PendingCommand | None) -> list[Effect]:
        """Take from an applied command who leads and who lives."""
        context = self._context
        own_claim = pending is not None and pending.purpose is Purpose.CLAIM
        state, leadership = context.state, context.leadership
        leadership.note_state(state.term, state.leader_id, own_claim, context.now_ms)
        context.note_elections(applied.outcome)
        if applied.record is not None:
            envelope = applied.record.envelope
            leadership.heard_through_log(envelope.issuer, envelope.term, context.now_ms)
        if not isinstance(applied.record, ClaimLeadership) or not applied.outcome.accepted:
            return []
        if applied.record.envelope.cause == CAUSE_NOT_ABLE:
            context.patience.succeeded(context.now_ms)
        return self._namesake(applied.record)

    def _namesake(self, claim: ClaimLeadership) -> list[Effect]:
        """Two processes with one name depose each other for ever, and each log looks well: so it is
        said.
        """
        config = self._context.config
        if (
            claim.controller_id != config.controller_id
            or claim.controller_address == config.address
            or not self.is_started
        ):
            return []
        return [
            fx.Note(
                "error",
                f"another process leads as {claim.controller_id}, at {claim.controller_address} "
                f"(this one is at {config.address}): every controller needs a controller_id of its "
                "own",
            )
        ]

    def invited(self, term: int) -> list[Effect]:
        """The leader of `term` steps aside for this controller (an operator's wish)."""
        context = self._context
        if self._started_ms is None or context.is_active or context.state.term != term:
            return []
        if not self._reads.is_able() or self._commands.is_claiming:
            return []
        context.leadership.claimed(context.now_ms)
        return self._commands.claim("leadership_transferred")

    def due(self) -> list[Effect]:
        """The formation or a claim, if it is time for one."""
        context, leadership = self._context, self._context.leadership
        if self._started_ms is None or not self._reads.is_able():
            return []
        if context.folder.offset < 0:
            due_ms = self._started_ms + leadership.rank() * FORM_STAGGER_MS
            return self._commands.formation() if context.now_ms >= due_ms else []
        if not leadership.claim_due(context.now_ms):
            return []
        cause = leadership.claim_cause()
        if cause == CAUSE_NOT_ABLE and not self._is_better_off():
            return []
        leadership.claimed(context.now_ms)
        return self._commands.claim(cause)

    def _is_better_off(self) -> bool:
        """Whether the log is out of reach for the leader only must be learnt after it said that it
        is not able.
        """
        context = self._context
        if not self._reads.is_current(context.leadership.unled_since_ms):
            return False
        word = context.peer_book.last_word(context.state.leader_id or "")
        return word is None or context.folder.offset >= word.applied_offset
