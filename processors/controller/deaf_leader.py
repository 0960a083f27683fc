"""A leader that hears few of the brokers offers leadership to a controller that hears them (design
D8). (P)

Responsible for: whom to offer it to, and when. Mass silence only holds elections back for a bounded
time; a leader that is cut from half the world while another controller is not should not be the one
to judge after that.
Refuses to know: how an offer is made, and whether it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.liveness.mass_silence import MASS_SILENCE_BROKERS

DEAF_FOR_MS = 1_500
"""Whoever has just started hears nobody for a moment."""
OFFER_AGAIN_MS = 2_000


class DeafLeader:
    """Asked often by the leader; `forget` when it leads no more."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._offered_ms: int | None = None

    def forget(self) -> None:
        self._since_ms = self._offered_ms = None

    def successor(self, own_heard: int, heard: Mapping[str, int], now_ms: int) -> str | None:
        """
        The controller to offer leadership to now, or None.

        `heard`: controllers that reach the log, with how many brokers each hears. It takes more
        than twice as many.
        """
        better = {
            peer: count
            for peer, count in heard.items()
            if count > max(MASS_SILENCE_BROKERS, 2 * own_heard)
        }
        if not better:
            self.forget()
            return None
        if self._since_ms is None:
            self._since_ms = now_ms
        if now_ms - self._since_ms < DEAF_FOR_MS:
            return None
        if self._offered_ms is not None and now_ms - self._offered_ms < OFFER_AGAIN_MS:
            return None
        self._offered_ms = now_ms
        return min(better, key=lambda peer: (-better[peer], peer))
