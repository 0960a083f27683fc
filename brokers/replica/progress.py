"""Which slaves of one mastership keep up, reported once per change.

Responsible for: the events SlaveCaughtUp and SlaveFellBehind. Refuses to know: what follows from
it; sets, sockets.
"""

from __future__ import annotations

from brokers.ha.master_link import MasterLink
from brokers.replica.effects import Effect, ReportEvent


class Progress:
    """`fell_behind_ms`: a slave that leaves bytes waiting for longer has fallen behind."""

    def __init__(self, fell_behind_ms: int) -> None:
        self._fell_behind_ms = fell_behind_ms
        self._keeping_up: set[int] = set()

    def link_ended(self, broker_id: int) -> None:
        self._keeping_up.discard(broker_id)

    def watch(self, link: MasterLink, log_end: int, now_ms: int) -> list[Effect]:
        """What is news of this slave."""
        if link.peer_id is None or link.acked is None:
            return []
        if link.acked == log_end and link.peer_id not in self._keeping_up:
            self._keeping_up.add(link.peer_id)
            return [
                ReportEvent(
                    "SlaveCaughtUp", {"slave_broker_id": link.peer_id, "offset": link.acked}
                )
            ]
        if (
            link.waiting_ms(now_ms=now_ms) > self._fell_behind_ms
            and link.peer_id in self._keeping_up
        ):
            self._keeping_up.discard(link.peer_id)
            return [
                ReportEvent(
                    "SlaveFellBehind",
                    {"slave_broker_id": link.peer_id, "lag_bytes": log_end - link.acked},
                )
            ]
        return []
