"""Which role notice (1008) this broker follows: one that is proven.

Anybody can send a 1008. So each start of ours makes up a token and tells it to its controllers,
with its registration and its heartbeats; a 1008 that repeats it is theirs, and is followed at once.
Any other (of a Java controller, of an earlier release, of a stranger) is a hint: a configured
controller is asked at once (1004), and what that says is followed. To ask each time would prove as
much, but it would put a question, and a read of the log's end, into every failover.

Responsible for: telling one from the other, and how often hints make it ask.
Refuses to know: how a controller is asked, and what a notice leads to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from brokers.membership import controller_messages as messages
from brokers.remoting.command import RemotingCommand
from brokers.replica.roles import RoleNotice

HINT_PAUSE_MS = 50
"""A flood of notices that no controller sent makes this broker ask no more often."""


class RoleNotices:
    """The notices that come to one start of a broker. `follow` takes those that are proven, `look`
    asks a controller.
    """

    def __init__(
        self,
        me: messages.Introduction,
        follow: Callable[[RoleNotice], None],
        look: Callable[[], Awaitable[None]],
    ) -> None:
        self._me = me
        self._follow = follow
        self._look = look
        self._hinted = asyncio.Event()

    def take(self, message: RemotingCommand) -> None:
        """A 1008; what cannot be read as one is nothing."""
        notice = messages.role_notice(message, "notify")
        if notice is None:
            return
        if messages.is_from_controller(message, self._me):
            self._follow(notice)
        else:
            self._hinted.set()

    async def run(self) -> None:
        """Ask after each hint; one that comes meanwhile may be newer than the answer, so it is
        asked once more.
        """
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            await self._look()
            await asyncio.sleep(HINT_PAUSE_MS / 1000)
