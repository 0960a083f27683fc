"""Looking at what a pop would get, without taking it: 200052, 200054 (PROTOCOL 4.9).

Responsible for: peeks, notifications, holding a notification until there is something. Refuses to
know: check points, places of groups, which it leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField
from brokers.service.popping.collect import Collector
from brokers.service.popping.pop_request import POLL_MS_MAX, PopRequest, parse
from brokers.service.popping.terms import PopTerms
from brokers.service.popping.waiting_pops import Waiting, WaitingPops
from brokers.service.role.forward import CALL_TIMEOUT_MS
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.request import Refusal

FOUND, NOTHING = "FOUND", "NO_MESSAGE_IN_QUEUE"


@dataclass(frozen=True, slots=True)
class Asker:
    """A notification that waits."""

    connection: Connection
    request: RemotingCommand
    pop: PopRequest


class PeekService(Service):
    """`unreadable(pop)`: why this topic or queue cannot be read."""

    def __init__(
        self,
        terms: PopTerms,
        collector: Collector,
        unreadable: Callable[[PopRequest], Refusal | None],
    ) -> None:
        self._terms = terms
        self._collector = collector
        self._unreadable = unreadable
        self.waiting = WaitingPops(last_first=True)

    def serves(self) -> dict[int, Served]:
        """The master's, as the pop that follows is."""
        moves = Moves.MESSAGES_OUT
        notify = Served(
            self.notify,
            Where.MASTER,
            repeatable=True,
            timeout_ms=POLL_MS_MAX + CALL_TIMEOUT_MS,
            moves=moves,
        )
        return {
            RequestCode.NOTIFICATION: notify,
            RequestCode.PEEK_MESSAGE: Served(self.peek, Where.MASTER, repeatable=True, moves=moves),
        }

    # -- notifications -----------------------------------------------------------------------------

    def notify(self, connection: Connection, request: RemotingCommand) -> Answer:
        """200054: whether there is something; where there is not, it waits."""
        clock = self._terms.clock
        asked = self._asked(request)
        if isinstance(asked, RemotingCommand):
            return asked
        if self._collector.has_more(asked):
            return _told(request, has_message=True)
        wait_ms = asked.wait_ms(clock.wall_ms())
        if not wait_ms:
            return _told(request, has_message=False)
        asker = Asker(connection, request, asked)
        if not self.waiting.hold(
            Waiting(asked.key, clock.now_ms() + wait_ms, connection.id, asker)
        ):
            return _told(request, has_message=False, full=True)
        return None

    def dispatched(self, topic: str, queue_id: int) -> None:
        """A queue grew: those that wait look again."""
        if self.waiting.watches(topic):
            for one in self.waiting.came(topic, queue_id, lambda _: True):
                self._look_again(one)

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Messages of this queue may be given again."""
        for one in self.waiting.more(topic, group, queue_id):
            self._look_again(one)

    def tick(self, now_ms: int) -> None:
        for one in self.waiting.expired(now_ms):
            self._tell(one, self._collector.has_more(_asker(one).pop))

    def mastership_over(self) -> None:
        for one in self.waiting.release_all():
            self._tell(one, has_message=False)

    def connection_closed(self, connection: Connection) -> None:
        self.waiting.connection_closed(connection.id)

    def _look_again(self, one: Waiting) -> None:
        if self._collector.has_more(_asker(one).pop):
            self._tell(one, has_message=True)
        elif not self.waiting.hold(one):
            self._tell(one, has_message=False)

    def _tell(self, one: Waiting, has_message: bool) -> None:
        asker = _asker(one)
        if not asker.connection.closed:
            asker.connection.send(_told(asker.request, has_message=has_message))

    # -- peeks -------------------------------------------------------------------------------------

    async def peek(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """200052: what a pop would get, as it is stored; nothing is taken."""
        asked = self._asked(request)
        if isinstance(asked, RemotingCommand):
            return asked
        bodies, rest = await self._collector.peek(asked)
        ext = {"restNum": str(rest)}
        if not bodies:
            return request.reply(ResponseCode.PULL_NOT_FOUND, ext, remark=NOTHING)
        return request.reply(ResponseCode.SUCCESS, ext, b"".join(bodies), remark=FOUND)

    def _asked(self, request: RemotingCommand) -> PopRequest | RemotingCommand:
        """What is asked for, or the refusal of it."""
        try:
            asked = parse(request.ext)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        refused = self._unreadable(asked)
        if refused is None and not self._terms.tables.groups.consume_enabled(asked.group):
            refused = Refusal(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {asked.group}"
            )
        if refused is not None:
            return request.reply(refused.code, remark=refused.remark)
        return asked


def _asker(one: Waiting) -> Asker:
    assert isinstance(one.request, Asker)
    return one.request


def _told(request: RemotingCommand, *, has_message: bool, full: bool = False) -> RemotingCommand:
    return request.reply(ext={"hasMsg": str(has_message).lower(), "pollingFull": str(full).lower()})
