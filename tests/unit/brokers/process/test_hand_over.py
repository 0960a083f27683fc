"""Carrying out a hand-over: what is asked of whom, and that writes are never held longer than it
takes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from brokers.clock import Clock
from brokers.process.hand_over import MasterHandOver, StopLimits
from brokers.remoting.calls import CallTimeout
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import RoleChanged
from brokers.replica.ha_status import HaStatus, SlaveSeen
from brokers.service.role.hand_over import Refused
from brokers.service.role.role_view import RoleView
from events import broker_events, codec
from events.broker_events import BrokerEventHeader
from tests.support.brokers import until

ADDRESSES = {1: "h:1", 2: "h:2", 3: "h:3"}


@dataclass
class Around:
    """A master of epoch 3 with two members that have everything; what its surroundings answer is
    the test's.
    """

    roles: RoleView = field(default_factory=RoleView)
    table_answers: dict[str, list[int]] = field(default_factory=dict)
    elect_code: int | None = 0
    tables_asked: list[str] = field(default_factory=list)
    elected: list[int] = field(default_factory=list)
    looked: int = 0
    routes_left: int = 0
    held_when_asked: list[bool] = field(default_factory=list)
    hold_ms: int = 60_000
    clients: int = 0
    route_poll_ms: int = 30_000

    @property
    def elects(self) -> bool:
        return self.leader is not None

    def __post_init__(self) -> None:
        self.roles.changed(RoleChanged("MASTER", 3, 1, "h:1", (1, 2, 3), 3))
        self.leader: str | None = "c:1"
        self.replicas = ADDRESSES
        self.waiting = 0
        self.passed_ms: int | None = None
        self.slaves = tuple(SlaveSeen("", number, True, 100, 100, 0) for number in (2, 3))
        replica = SimpleNamespace(
            store=SimpleNamespace(log_end=100),
            core=SimpleNamespace(confirm_offset=100),
            ha_status=lambda: HaStatus(self.slaves),
        )
        self.told: list[tuple[str, dict[str, object]]] = []
        told = lambda kind, fields: self.told.append((kind, fields))
        parts: list[object] = [
            self.roles,
            replica,
            self,
            self,
            self,
            Clock(),
            lambda: 0,
            lambda: self.clients,
            self._left_routes,
            StopLimits(self.hold_ms, self.route_poll_ms, 2_500),
            told,
        ]
        self.work = MasterHandOver(*parts)  # type: ignore[arg-type]

    async def call(
        self, address: str, request: RemotingCommand, _timeout_ms: int
    ) -> RemotingCommand:
        assert request.ext == {"regentMasterEpoch": "3", "regentToLead": "true"}
        self.tables_asked.append(address)
        self.held_when_asked.append(self.roles.draining)
        codes = self.table_answers.get(address)
        code = codes.pop(0) if codes else 0
        if code < 0:
            raise CallTimeout("no answer")
        return request.reply(code)

    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None:
        assert designate and self.roles.draining
        self.elected.append(broker_id)
        if self.elect_code is None:
            return None
        if self.elect_code == 0:
            self.roles.changed(
                RoleChanged("SLAVE", 4, broker_id, ADDRESSES[broker_id], (1, 2, 3), 4)
            )
        return RemotingCommand.request(1002).reply(self.elect_code, remark="said")

    def _left_routes(self) -> None:
        assert not self.roles.serving
        self.routes_left += 1

    def ask(self, elect: bool) -> None:
        assert not elect
        self.looked += 1


async def refused(around: Around, wanted: int | None = None) -> str:
    with pytest.raises(Refused) as error:
        await around.work.run(wanted)
    assert not around.roles.draining
    return str(error.value)


async def test_the_target_copies_the_tables_before_and_after_writes_are_held() -> None:
    around = Around()
    done = await around.work.run(3)
    assert (done.master_id, done.master_address, done.master_epoch) == (3, "h:3", 4)
    assert (
        around.tables_asked == ["h:3", "h:3"]
        and around.held_when_asked == [False, True]
        and around.elected == [3]
    )
    assert not around.roles.draining
    (begun, first), (completed, last) = around.told
    assert (begun, first["target_broker_id"], first["master_epoch"]) == ("HandOverBegun", 3, 3)
    assert (completed, last["target_broker_id"], last["new_master_epoch"]) == (
        "HandOverCompleted",
        3,
        4,
    )


async def test_each_refusal_is_an_event_that_its_schema_takes() -> None:
    for around, wanted, kinds in (
        (Around(elect_code=2012), 2, ["HandOverBegun", "HandOverRefused"]),
        (Around(table_answers={"h:2": [3], "h:3": [3]}), None, ["HandOverRefused"]),
    ):
        reason = await refused(around, wanted)
        assert [kind for kind, _ in around.told] == kinds and around.told[-1][1]["reason"] == reason
        assert around.told[-1][1]["target_broker_id"] == (wanted or -1)
        header = BrokerEventHeader(bytes(16), "c", "b", 1, "i", 1, 1)
        for kind, fields in around.told:
            event = getattr(broker_events, kind)(header=header, **fields)
            assert codec.decode(codec.encode(event)) == event


async def test_a_member_of_another_kind_or_without_an_answer_is_passed_over() -> None:
    around = Around(table_answers={"h:2": [3]})
    assert (await around.work.run()).master_id == 3
    around = Around(table_answers={"h:2": [3], "h:3": [-1]})
    assert await refused(around) == "replica 2: it is no broker of this kind; replica 3: no answer"
    assert around.elected == [] and True not in around.held_when_asked


async def test_a_target_that_does_not_answer_while_writes_are_held_is_not_elected() -> None:
    around = Around(table_answers={"h:2": [0, -1]})
    assert (
        await refused(around, 2) == ("not handed over to replica 2: no answer")
        and around.elected == []
    )


async def test_a_refusal_of_the_controller_is_told() -> None:
    around = Around(elect_code=2012)
    assert "2012 said" in await refused(around) and around.looked == 1


async def test_a_silent_controller_ends_the_holding_in_time_and_is_asked_what_holds() -> None:
    around = Around(elect_code=None, hold_ms=400)
    assert "in time" in await refused(around) and around.looked == 1


async def test_only_a_master_hands_over_and_only_once_at_a_time() -> None:
    around = Around(elect_code=None, hold_ms=400)
    first = asyncio.ensure_future(around.work.run())
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="under way"):
        await around.work.run()
    await asyncio.wait((first,))
    assert first.exception() is not None
    around.roles.changed(RoleChanged("SLAVE", 4, 2, "h:2", (1, 2), 4))
    assert await refused(around) == "this broker is not the master of its set"


async def test_a_stop_needs_a_controller_and_somebody_to_take_over() -> None:
    around = Around()
    around.leader = None
    await around.work.before_stop()
    around.leader, around.slaves = "c:1", ()
    await around.work.before_stop()
    assert around.elected == [] and around.roles.serving


async def test_a_stop_waits_for_a_member_that_still_catches_up() -> None:
    around = Around()
    able, around.slaves = around.slaves, (SlaveSeen("", 2, False, 0, -1, 0),)
    seen = 0

    def still() -> None:
        nonlocal seen
        seen += 1

    leaving = asyncio.ensure_future(around.work.before_stop(still))
    await until(lambda: seen > 3, "it waits")
    assert around.elected == [] and around.roles.serving
    around.slaves = able
    await leaving
    assert around.elected == [2] and around.roles.role == "SLAVE"


async def test_a_stop_waits_for_the_only_member_when_it_is_started_anew_just_then() -> None:
    around = Around(table_answers={"h:2": [-1], "h:3": [-1]})
    able, seen = around.slaves, 0

    def still() -> None:
        nonlocal seen
        seen += 1
        around.slaves = () if seen < 5 else able  # the supervisor has killed it, and it is back

    await around.work.before_stop(still)
    assert around.elected == [2] and around.roles.role == "SLAVE" and seen >= 5


async def test_a_stop_waits_for_the_hand_over_that_is_under_way() -> None:
    around = Around(elect_code=None, hold_ms=2_000)
    wish = asyncio.ensure_future(around.work.run(3))
    await until(lambda: around.elected, "the controller was asked")
    leaving = asyncio.ensure_future(around.work.before_stop())
    await asyncio.wait((leaving,), timeout=0.05)
    assert not leaving.done()
    around.roles.changed(RoleChanged("SLAVE", 4, 3, "h:3", (1, 2, 3), 4))
    await leaving
    assert (await wish).master_id == 3 and around.elected == [3]


async def test_a_member_that_did_not_answer_is_asked_again_before_the_stop() -> None:
    around = Around(table_answers={"h:2": [-1], "h:3": [-1]})
    await around.work.before_stop()
    assert around.elected == [2] and around.roles.role == "SLAVE"


async def test_after_a_hand_over_a_stop_waits_until_clients_are_quiet() -> None:
    around = Around()
    around.waiting = 1
    leaving = asyncio.ensure_future(around.work.before_stop())
    await until(lambda: around.elected, "it was handed over")
    await asyncio.wait((leaving,), timeout=0.05)
    assert around.elected == [2] and not leaving.done()
    around.waiting = 0
    await leaving


async def test_with_clients_it_waits_for_their_routes_and_a_second_signal_ends_that() -> None:
    around = Around(clients=1)
    hurry, seen = asyncio.Event(), 0

    def still() -> None:
        nonlocal seen
        seen += 1

    leaving = asyncio.ensure_future(around.work.before_stop(still, hurry.is_set))
    await until(lambda: seen > 3, "it stays")
    assert around.work.leaves_in_ms is not None and around.work.leaves_in_ms > 1_500
    hurry.set()
    await leaving
    assert around.work.leaves_in_ms is None


async def test_who_was_the_master_lately_stays_too_and_nobody_without_controllers() -> None:
    around = Around()
    around.roles.changed(RoleChanged("SLAVE", 4, 2, "h:2", (1, 2), 4))
    await around.work.before_stop()
    around.passed_ms = Clock().now_ms()
    leaving = asyncio.ensure_future(around.work.before_stop())
    await until(lambda: around.work.leaves_in_ms is not None, "it stays")
    assert around.routes_left  # else clients would find it for as long as it stays
    around.leader = None
    await leaving
    assert around.elected == []


async def test_elected_again_while_it_waits_it_hands_over_again() -> None:
    around = Around(clients=1)
    leaving = asyncio.ensure_future(around.work.before_stop())
    await until(lambda: around.work.leaves_in_ms is not None, "it stays")
    around.clients = 0
    able, around.slaves = around.slaves, ()  # they have not found the new master yet
    around.roles.changed(RoleChanged("MASTER", 3, 1, "h:1", (1, 2, 3), 3))
    await until(lambda: around.work.leaves_in_ms is None, "it leads again")
    around.slaves = able
    await leaving
    assert around.elected == [2, 2] and around.roles.role == "SLAVE"
