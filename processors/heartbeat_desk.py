"""Heartbeats of brokers (904) and of other controllers (19001).

Responsible for: taking what they tell to liveness, leadership and the book of peers, and what a return asks for.
Refuses to know: who is elected because of it.
"""

from __future__ import annotations

from processors import gateway
from processors.core_context import CoreContext
from processors.effects import Effect
from processors.leading_desk import LeadingDesk
from processors.peer_desk import PeerDesk
from processors.pending import Waiter
from processors.publish_desk import PublishDesk


class HeartbeatDesk:
    """Every controller takes them, whoever leads (controller.md 3.1)."""

    def __init__(
        self, context: CoreContext, leading: LeadingDesk, peers: PeerDesk, outcomes: PublishDesk
    ) -> None:
        self._context = context
        self._leading = leading
        self._peers = peers
        self._outcomes = outcomes

    def broker(self, waiter: Waiter) -> list[Effect]:
        """904: one-way from brokers; whoever wants an answer gets 0 without a header. Raises BadRequest (2005)."""
        context = self._context
        beat = gateway.heartbeat_of(waiter.request)
        returned = context.liveness.heard(beat, waiter.conn_id, context.now_ms)
        effects = self._leading.returned(beat.key) if returned else []
        if waiter.request.is_oneway:
            return effects
        return effects + waiter.answer(
            waiter.request.reply(0, remark="Received broker heartbeat success")
        )

    def peer(self, waiter: Waiter) -> list[Effect]:
        """19001: never answered."""
        ext = waiter.request.ext
        fields = gateway.Fields(ext)
        peer_id = fields.text("controllerId")
        self._context.peer_book.note(peer_id, ext, self._context.now_ms)
        return self.peer_heard(
            peer_id,
            active=fields.flag("active"),
            able=fields.flag("able"),
            term=fields.number("term"),
            published_offset=fields.number("publishedOffset", -1),
        )

    def peer_heard(
        self, peer_id: str, *, active: bool, able: bool, term: int, published_offset: int
    ) -> list[Effect]:
        """Another controller is there, and says whether it leads and gets through to the log."""
        context = self._context
        context.leadership.heard(peer_id, active, able, term, context.now_ms)
        if active and term == context.state.term:
            self._outcomes.published_elsewhere(published_offset)
        return self._peers.drain()
