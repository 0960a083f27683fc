"""Messages with a time, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.command import RemotingCommand
from tests.support.brokers import send_request
from tests.support.client_service import Desk


class TimeMachine:
    """The clocks of a broker stand still but for `pass_ms`. From the next whole second on."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._steady_ms = desk.clock.now_ms()
        self.now_ms = desk.clock.wall_ms()
        self.pass_ms(-self.now_ms % 1_000)
        desk.clock.wall_ms = lambda: self.now_ms  # type: ignore[method-assign]
        desk.clock.now_ms = lambda: self._steady_ms  # type: ignore[method-assign]

    def pass_ms(self, ms: int) -> None:
        """Time goes by."""
        self.now_ms += ms
        self._steady_ms += ms

    def jump_ms(self, ms: int) -> None:
        """The wall clock is set."""
        self.now_ms += ms


def timed(
    body: bytes, properties: Mapping[str, object], topic: str = "T", queue_id: int = 0
) -> RemotingCommand:
    """A send with these properties; its unique key is its body."""
    request = send_request(topic, body, queue_id)
    entries = {"UNIQ_KEY": body.decode(), "TAGS": "t", **properties}
    request.ext["i"] = "".join(f"{name}\x01{value}\x02" for name, value in entries.items())
    return request
