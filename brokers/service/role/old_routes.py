"""Clients that still take this broker for the master when it is asked to stop (design section 5).

A stock client reads its route every 30 s and keeps to the address it has. So the port of a former
master stays open, and passes on what comes, until all have read a route that names the new one.

Responsible for: how long that takes. Refuses to know: sockets, clocks, how a request is passed on.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_MS = 500
"""Nothing came for this long: also a client that introduced itself nowhere has gone."""
READ_MS = 2_000
"""What reading a route takes, and a client's own timer may be late."""


@dataclass(frozen=True, slots=True)
class OldRoutes:
    """Of one stop that was asked for at `began_ms`. Times in ms of one monotonic clock.

    `led`: this broker was the master until then; `clients`: how many introduced themselves here.
    `route_poll_ms`: how often clients read their route; `limit_ms`: the wait ends after it, whoever
    still comes.
    """

    began_ms: int
    led: bool
    clients: int
    route_poll_ms: int
    limit_ms: int

    def left_ms(self, now_ms: int, passed_ms: int | None, under_way: int) -> int:
        """How long to go on; 0 or less: nobody comes any more. `passed_ms`: when the last request
        was passed on to a master, None for never; `under_way`: requests that are now.
        """
        until_ms = self.began_ms
        lately = passed_ms is not None and passed_ms >= self.began_ms - self.route_poll_ms
        if lately or (self.led and self.clients):
            until_ms += self.route_poll_ms + READ_MS
        elif self.led:
            until_ms += QUIET_MS
        if lately and passed_ms is not None:
            until_ms = max(until_ms, passed_ms + QUIET_MS)
        if under_way:
            until_ms = max(until_ms, now_ms + 1)
        return min(until_ms, self.began_ms + self.limit_ms) - now_ms
