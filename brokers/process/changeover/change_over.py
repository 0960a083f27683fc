"""The internal request 19018: a set changes over while it runs (PROTOCOL 7.8).

Responsible for: the three words of it and their answers, holding writes for as long as the master
needs to give up and never longer, telling the others, ending this life of the process.
Refuses to know: what keeps a master from giving up, which order is whose (`brokers/changeover`),
what begins afterwards.

`look` tells where this broker stands. `begin` goes to the master, with everybody's orders: it is
answered when it has given up and the others were told, or says why it serves on. `follow` goes to
another replica, with its order: it is answered when the order is on its disk, and the replica
begins its next life behind that. Each may be said again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from brokers.changeover.giving_up import Quiet, Standing, lack, leader_allows, refusal
from brokers.changeover.order import Kind, Lines, Order, Record, for_others, order_of, orders_of
from brokers.clock import Clock
from brokers.membership.member_group import member_group_question, read_member_group
from brokers.process.changeover.folder import write_cut_off, write_record
from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.service.role.hand_over_requests import take_tables
from brokers.service.role.role_view import RoleView

WORD = "word"
LOOK, BEGIN, FOLLOW = "look", "begin", "follow"
LOOK_MS = 2
TABLES_MS = 2_000
TELL_MS = 2_000
TELL_TRIES = 3
BRING_AGAIN_MS, BRING_AGAIN_MAX_MS = 500, 30_000
GATHER_HOLDS = 5
"""For how many times as long as one write is held its new life waits for the others of the set."""

_log = logging.getLogger("regent.broker.changeover")


class PlaceChanged(Exception):
    """This life of the broker is over: the next one has another place in its set."""


class NotNow(Exception):
    """The set does not change over; the text says why. Writes go on."""


@dataclass(frozen=True, slots=True)
class Here:
    """This broker. `kind`, `broker_id`: its place now; `lines`: what its own file says of it;
    `record`: of the last changeover, None without one; `copies`: how many replicas hold what it
    acknowledges; `acts`: slaves of its set act for the master; `total_replicas`: how many its file
    says there are, 0 where it does not say.
    """

    cluster_name: str
    broker_name: str
    address: str
    store_dir: Path
    kind: Kind
    broker_id: Callable[[], int | None]
    copies: int
    acts: bool
    name_servers: tuple[str, ...]
    lines: Lines
    record: Record | None
    total_replicas: int = 0


class ChangeOver:
    """One replica's part. `quiet(others)`: a look at the master that holds; `is_whole()`: as many
    replicas are there as an answer stands for; `hold_ms`: how long held requests wait.
    """

    def __init__(
        self,
        here: Here,
        roles: RoleView,
        client: RemotingClient,
        clock: Clock,
        is_ours: Callable[[str], bool],
        quiet: Callable[[int], Quiet],
        is_whole: Callable[[], bool],
        hold_ms: int,
    ) -> None:
        self._here = here
        self._roles = roles
        self._client = client
        self._clock = clock
        self._is_ours = is_ours
        self._quiet = quiet
        self._is_whole = is_whole
        self._hold_ms = hold_ms
        self._record = here.record
        self._holds_for = ""
        self._busy = asyncio.Lock()
        self._over: asyncio.Future[None] | None = None

    def over(self) -> asyncio.Future[None]:
        """Raises PlaceChanged when this life ends for another place."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        return self._over

    async def gather(self) -> None:
        """Behind a changeover the others begin anew as well: writes wait for them, not for ever,
        and each no longer than any write is held. Served earlier, they would be refused for want
        of copies at once, and a client's tries would be over before the others are there.
        """
        until_ms = self._clock.now_ms() + GATHER_HOLDS * self._hold_ms
        while self._roles.gathering and self._clock.now_ms() < until_ms:
            if self._roles.role == "SLAVE" or (self._roles.serving and self._is_whole()):
                break
            await self._roles.wait_change(LOOK_MS)
        self._roles.gather(False)

    async def bring_along(self) -> None:
        """Who gave up and died before everybody was told tells the others in its next life: one
        that was away as well must not come back as the slave that it was, and act.
        """
        record, again_ms = self._record, BRING_AGAIN_MS
        if record is None or record.in_order or record.order.kind is Kind.FIXED:
            return
        waiting = for_others(record.orders, record.order.address)
        while waiting:
            seen = await asyncio.gather(*(self._is_there(one) for one in waiting))
            waiting = tuple(one for one, there in zip(waiting, seen, strict=True) if not there)
            await asyncio.sleep(again_ms / 1000)
            again_ms = min(2 * again_ms, BRING_AGAIN_MAX_MS)

    async def _is_there(self, order: Order) -> bool:
        """Whether that replica is with controllers, or has just taken its order."""
        try:
            if (await self.look_at(order.address)).kind is not Kind.FIXED:
                return True
        except NotNow:
            return False
        return not await self._tell((order,), 1)

    def serve(self, connection: Connection, request: RemotingCommand) -> Answer:
        """Handler of 19018."""
        word, is_ours = request.ext.get(WORD), self._is_ours(connection.peer)
        if word == LOOK:
            document = self.document() if is_ours else {**self.document(), "orders": []}
            return request.reply(body=fastjson.dumps(document))
        if not is_ours:
            remark = (
                "a set changes over by a word from a host of one of its replicas, not from "
                f"{connection.peer}; run it there"
            )
            return request.reply(ResponseCode.NO_PERMISSION, remark=remark)
        act = {BEGIN: self._begin, FOLLOW: self._follow}.get(word or "")
        if act is None:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"{LOOK}, {BEGIN} or {FOLLOW}: not {word!r}"
            )
        return self._answered(request, act)

    async def _answered(
        self, request: RemotingCommand, act: Callable[[object], Awaitable[Mapping[str, str]]]
    ) -> RemotingCommand:
        """One at a time; a second one finds what the first one did."""
        try:
            async with self._busy:
                return request.reply(ext=dict(await act(fastjson.loads(request.body))))
        except (NotNow, ValueError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except OSError as error:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"the record cannot be written: {error}"
            )

    def document(self) -> dict[str, object]:
        """Where this broker stands. Orders hold what proves an id: they are for hosts of the
        set.
        """
        here, record, standing = self._here, self._record, self._standing()
        return {
            "cluster_name": here.cluster_name,
            "broker_name": here.broker_name,
            "address": here.address,
            "kind": standing.kind.value,
            "broker_id": here.broker_id(),
            "serving": standing.serving,
            "role": self._roles.role,
            "change": standing.change,
            "holds_for": standing.holds_for,
            "log_end": standing.log_end,
            "copies": here.copies,
            "acts": here.acts,
            "in_order": standing.in_order,
            "total_replicas": here.total_replicas,
            "name_servers": list(here.name_servers),
            "store_dir": str(here.store_dir),
            "lines": here.lines.document(),
            "orders": [] if record is None else [one.document() for one in record.orders],
        }

    def _standing(self) -> Standing:
        record = self._record
        kind = self._here.kind if record is None else record.order.kind
        change = "" if record is None else record.order.change
        log_end = self._quiet(0).log_end
        in_order = record is None or record.in_order
        return Standing(
            *(kind, self._roles.serving, change, self._holds_for, log_end),
            *(self._here.acts, in_order),
        )

    # -- another replica ---------------------------------------------------------------------------

    async def _follow(self, body: object) -> Mapping[str, str]:
        order = order_of(body)
        self._require_mine(order)
        record = self._record
        if record is not None and record.order == order:
            return {"already": "true"}
        leader = await self.look_at(order.leader)
        reason = refusal(order, self._standing()) or leader_allows(order, leader)
        if reason is not None:
            raise NotNow(reason)
        await self._give_up(order, (), in_order=leader.holds_for == order.change)
        self._ends()
        return {}

    def _require_mine(self, order: Order) -> None:
        here = self._here
        mine = (here.cluster_name, here.broker_name, here.address)
        if (order.cluster_name, order.broker_name, order.address) != mine:
            raise NotNow(f"this broker is {here.broker_name} at {here.address}: not its order")

    async def look_at(self, address: str, limit_ms: int = TELL_MS) -> Standing:
        """Where another replica stands. NotNow: it does not say."""
        ask = RemotingCommand.request(RequestCode.REGENT_CHANGE_OVER, {WORD: LOOK})
        try:
            answer = await self._client.call(address, ask, limit_ms)
        except RemotingError as error:
            raise NotNow(f"{address} does not say where it stands: {error}") from None
        return standing_of(answer.body)

    async def _give_up(self, order: Order, orders: tuple[Order, ...], *, in_order: bool) -> None:
        """The place of now, durably."""
        await self._keep(order, orders, in_order=in_order)
        _log.warning(
            "changes over: %s, broker id %d, by %s", order.kind.value, order.broker_id, order.change
        )

    async def _keep(self, order: Order, orders: tuple[Order, ...], *, in_order: bool) -> None:
        here = self._here
        record = Record(order, here.lines, False, orders, in_order, here.acts)
        await asyncio.to_thread(write_record, self._here.store_dir, record)
        self._record = record

    def _ends(self) -> None:
        """Behind the answer, this life does."""
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        if not self.over().done():
            self.over().set_exception(PlaceChanged())

    # -- the master --------------------------------------------------------------------------------

    async def _begin(self, body: object) -> Mapping[str, str]:
        orders = orders_of(body)
        mine = next((one for one in orders if one.address == self._here.address), None)
        if mine is None or mine.leader != self._here.address:
            raise NotNow(f"{self._here.address} is not who leads by these orders")
        self._require_mine(mine)
        record = self._record
        if record is not None and record.order == mine:
            return await self._told_again(record)
        if not self._roles.serving:
            raise NotNow("this broker is not the master of its set")
        if self._here.kind is mine.kind:
            raise NotNow(f"its place is {mine.kind.value} already")
        others = for_others(orders, mine.address)
        epoch, began_ms = self._roles.current.master_epoch, self._clock.now_ms()
        try:
            await self._held_and_quiet(mine, others)
            if mine.kind is Kind.CONTROLLERS:
                left = await self._give_up_first(mine, orders)
            else:
                left = await self._give_up_last(mine, orders, epoch)
        except BaseException:
            self._holds_for = ""
            if self._record is record:
                self._roles.drain(False)
            raise
        self._ends()
        return {"heldMs": str(self._clock.now_ms() - began_ms), "left": "; ".join(left)}

    async def _give_up_first(self, mine: Order, orders: tuple[Order, ...]) -> list[str]:
        """To controllers. Who did not follow."""
        await self._give_up(mine, orders, in_order=False)
        left = await self._tell(for_others(orders, mine.address), 1)
        try:
            await self._keep(mine, orders, in_order=True)  # it lives, so nobody has acted for it
        except OSError as error:
            _log.error("its next life may ask the others for longer: %s", error)
        return left

    async def _give_up_last(self, mine: Order, orders: tuple[Order, ...], epoch: int) -> list[str]:
        """From controllers. NotNow."""
        await self._require_name_server()
        await asyncio.to_thread(write_cut_off, self._here.store_dir, orders)
        self._require_alone(await self._tell(for_others(orders, mine.address), TELL_TRIES), epoch)
        await self._give_up(mine, orders, in_order=True)
        return []

    async def _require_name_server(self) -> None:
        """Without controllers only name servers tell a slave its master. NotNow."""
        here, said = self._here, "none is named"
        question = member_group_question(here.cluster_name, here.broker_name)
        for address in here.name_servers:
            try:
                read_member_group(await self._client.call(address, question, TELL_MS))
                return
            except (RemotingError, ValueError) as error:
                said = f"{address}: {error}"
        raise NotNow(f"no name server answers ({said}), and a slave finds its master by them alone")

    def _require_alone(self, left: list[str], epoch: int) -> None:
        """Nobody else can lead when this broker begins to lead by its configuration. NotNow."""
        if left:
            raise NotNow(f"these did not follow: {'; '.join(left)}; it serves on")
        if not self._roles.serving or self._roles.current.master_epoch != epoch:
            raise NotNow("another one was elected meanwhile")

    async def _told_again(self, record: Record) -> Mapping[str, str]:
        """It gave up before, and may have ended before everybody was told."""
        left = await self._tell(for_others(record.orders, record.order.address), TELL_TRIES)
        return {"already": "true", "left": "; ".join(left)}

    async def _held_and_quiet(self, mine: Order, others: tuple[Order, ...]) -> None:
        """Everybody has everything when this returns, and nothing new comes. NotNow."""
        await self._hand_tables(here := await self._still_here(mine, others))
        self._holds_for = mine.change
        self._roles.drain(True)
        until_ms = self._clock.now_ms() + self._hold_ms // 2
        while (hindrance := await self._hindrance(here)) is not None:
            if self._clock.now_ms() >= until_ms:
                raise NotNow(f"{hindrance}, and writes are held no longer: it serves on")
            await self._roles.wait_change(LOOK_MS)
        await self._hand_tables(here)  # what came since the first copy was written down by now

    async def _hindrance(self, others: tuple[Order, ...]) -> str | None:
        """By this master's links, then by what the others say themselves."""
        look = self._quiet(len(others))
        if look.hindrance is not None:
            return look.hindrance
        return lack(look.log_end, await self._standing_of(others))

    async def _standing_of(self, others: tuple[Order, ...]) -> dict[str, Standing]:
        addresses = [one.address for one in others]
        found = await asyncio.gather(*map(self.look_at, addresses))
        return dict(zip(addresses, found, strict=True))

    async def _still_here(self, mine: Order, others: tuple[Order, ...]) -> tuple[Order, ...]:
        """Without those who followed an earlier attempt, which this master did not end. NotNow."""
        standing = await self._standing_of(others)
        return tuple(one for one in others if standing[one.address].kind is not mine.kind)

    async def _hand_tables(self, others: tuple[Order, ...]) -> None:
        """Every other replica copies what is no message: topics, groups, offsets. NotNow."""
        request = take_tables(self._roles.current.master_epoch, to_lead=True)
        refusals = await asyncio.gather(
            *(self._refusal(one.address, request, TABLES_MS) for one in others)
        )
        if said := [text for text in refusals if text is not None]:
            raise NotNow(f"tables were not copied: {'; '.join(said)}")

    async def _tell(self, others: tuple[Order, ...], tries: int) -> list[str]:
        """Who did not take its order, and why. On the way in one try has to do: the set goes on
        without those, and the command tells them again.
        """

        async def one(order: Order) -> str | None:
            body = fastjson.dumps(order.document())
            request = RemotingCommand.request(RequestCode.REGENT_CHANGE_OVER, {WORD: FOLLOW}, body)
            return await self._refusal(order.address, request, TELL_MS, tries)

        said = await asyncio.gather(*map(one, others))
        left = [text for text in said if text is not None]
        if left:
            _log.error("did not follow: %s", "; ".join(left))
        return left

    async def _refusal(
        self, address: str, request: RemotingCommand, limit_ms: int, tries: int = 1
    ) -> str | None:
        """What keeps that replica from doing it, None when it did: by its answer, or by the last
        one of so many calls in vain.
        """
        said = ""
        for _ in range(tries):
            try:
                answer = await self._client.call(address, request, limit_ms)
            except RemotingError as error:
                said = str(error)
                continue
            if answer.code == ResponseCode.SUCCESS:
                return None
            said = str(answer.remark or answer.code)
            break
        return f"{address}: {said}"


def standing_of(body: bytes) -> Standing:
    """What a `look` says. NotNow when it cannot be read."""
    try:
        document = fastjson.loads(body)
        assert isinstance(document, dict)
        return Standing(
            Kind(document["kind"]),
            bool(document["serving"]),
            str(document["change"]),
            str(document["holds_for"]),
            int(document["log_end"]),
            document.get("acts") is True,
            document.get("in_order") is True,
        )
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise NotNow("a replica does not say where it stands") from error
