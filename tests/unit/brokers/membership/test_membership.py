"""A broker among its controllers: registration carried out, notices handed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.membership.controller_messages import Introduction, LogPosition
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.membership import (
    Membership,
    MembershipHooks,
    MembershipTimers,
    RegistrationRefused,
)
from brokers.membership.registration import Identity
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.roles import RoleNotice
from tests.support.brokers import until
from tests.support.scripted_controller import ScriptedController


class Broker:
    """A membership and what it told."""

    def __init__(
        self, folder: Path, controller: ScriptedController, *, asks_for_elections: bool = True
    ) -> None:
        self.notices: list[RoleNotice] = []
        self.events: list[str] = []
        self.identities: list[int] = []
        hooks = MembershipHooks(
            self.identities.append,
            self.notices.append,
            lambda: LogPosition(3, 100, 90),
            lambda: True,
            lambda kind, fields: self.events.append(kind),
        )
        me = Introduction("C", "b", "127.0.0.1:1", "127.0.0.1:2", "inc")
        timers = MembershipTimers(50, 10_000, 50, 7, asks_for_elections)
        self.membership = Membership(
            me, [controller.address], IdentityFiles(folder), timers, hooks, Clock()
        )
        self.membership.start()


@pytest.fixture
async def controller() -> AsyncIterator[ScriptedController]:
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


async def test_a_first_start_registers_asks_for_an_election_and_beats(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    assert broker.identities == [1] and broker.events == ["IdentityWritten"]
    await until(
        lambda: any(notice.master_id == 1 for notice in broker.notices), "an election was won"
    )
    await until(lambda: any(request.code == 904 for request in controller.heard), "heartbeats came")
    register = next(request for request in controller.heard if request.code == 1003)
    assert (
        register.ext["regentLastEpoch"] == "3"
        and register.ext["regentEndOffset"] == "100"
        and register.ext["regentClean"] == "true"
    )
    assert broker.membership.replicas == {1: "127.0.0.1:1"}
    await broker.membership.close()


async def test_a_known_broker_only_registers(
    tmp_path: Path, controller: ScriptedController
) -> None:
    IdentityFiles(tmp_path).write_identity(Identity("C", "b", 4))
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    assert (
        controller.heard_codes()[0] == 1003
        and 1013 not in controller.heard_codes()
        and broker.identities == [4]
    )
    await broker.membership.close()


async def test_a_broker_proves_itself_with_the_code_that_it_got_its_id_with_after_a_restart_too(
    tmp_path: Path, controller: ScriptedController
) -> None:
    for _ in range(2):
        broker = Broker(tmp_path, controller)
        await broker.membership.register()
        await until(
            lambda: {904, 1003} <= {request.code for request in controller.heard}, "it spoke"
        )
        told = {
            request.ext.get("regentCheckCode")
            for request in controller.heard
            if request.code in (904, 1003)
        }
        assert told == {controller.codes[1]}
        controller.heard.clear()
        await broker.membership.close()


async def test_a_learner_asks_who_leads_and_never_to_lead(
    tmp_path: Path, controller: ScriptedController
) -> None:
    learner = Broker(tmp_path, controller, asks_for_elections=False)
    await learner.membership.register()
    learner.membership.ask(elect=True)
    await until(lambda: controller.heard_codes().count(1004) >= 2, "it asked who leads")
    assert 1002 not in controller.heard_codes()
    await learner.membership.close()


async def test_an_identity_of_another_set_is_refused(
    tmp_path: Path, controller: ScriptedController
) -> None:
    IdentityFiles(tmp_path).write_identity(Identity("C", "other", 4))
    broker = Broker(tmp_path, controller)
    with pytest.raises(RegistrationRefused):
        await broker.membership.register()
    await broker.membership.close()


async def test_an_id_taken_meanwhile_is_replaced_by_the_next(
    tmp_path: Path, controller: ScriptedController
) -> None:
    controller.refuse = {1013: 2014}
    broker = Broker(tmp_path, controller)
    registering = asyncio.ensure_future(broker.membership.register())
    await until(lambda: controller.heard_codes().count(1013) >= 1, "the id was asked for")
    controller.codes[1], controller.refuse = "somebody", {}
    await registering
    assert broker.membership.broker_id == 2
    await broker.membership.close()


async def test_the_poll_is_the_net_below_and_a_forgotten_broker_registers_again(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    await until(lambda: controller.heard_codes().count(1004) >= 2, "the poll goes on")
    controller.refuse = {1004: 2008}
    before = controller.heard_codes().count(1003)
    await until(lambda: controller.heard_codes().count(1003) > before, "it registered again")
    await broker.membership.close()


async def test_a_notice_is_handed_on_at_once(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    ext = {
        "masterBrokerId": "9",
        "masterAddress": "h:1",
        "masterEpoch": "7",
        "syncStateSetEpoch": "1",
        "regentReplicas": "9=h:1",
    }
    ext["regentNoticeToken"] = broker.membership.me.notice_token
    broker.membership.notified(RemotingCommand.request(1008, ext, b'{"syncStateSet":[9]}'))
    assert broker.notices[-1].master_id == 9 and broker.membership.replicas == {9: "h:1"}
    await broker.membership.close()


async def test_a_proposal_gets_one_result_and_an_open_one_has_no_code(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    await until(lambda: controller.master == 1, "there is a master")
    effect = ProposeSyncSet(1, (1, 2), controller.set_epoch, 1)
    result = await broker.membership.propose(effect, "a" * 32)
    assert (result.code, result.members, result.set_epoch) == (0, (1, 2), controller.set_epoch)
    late = await broker.membership.propose(effect, "a" * 32)
    assert late.code == 2001 and late.set_epoch == controller.set_epoch
    controller.refuse = {1001: 1}
    assert (await broker.membership.propose(effect, "a" * 32)).code is None
    await broker.membership.close()


async def test_a_part_that_breaks_down_is_told_to_the_process(
    tmp_path: Path, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path, controller)
    failed = broker.membership.failed()

    def stumble() -> None:
        raise RuntimeError("planted")

    await broker.membership.register()
    monkeypatch.setattr(broker.membership, "_greeting", stumble)
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="planted"):
            await failed
    await broker.membership.close()


async def test_another_replica_can_be_named_as_master_and_the_answer_is_followed(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    await until(
        lambda: any(notice.master_id == 1 for notice in broker.notices), "an election was won"
    )
    controller.addresses[2] = ("127.0.0.1:1", "127.0.0.1:2")
    answer = await broker.membership.elect(2, designate=True)
    assert answer is not None and answer.code == 0 and broker.notices[-1].master_id == 2
    asked = [request.ext for request in controller.heard if request.code == 1002][-1]
    assert (asked["brokerId"], asked["designateElect"]) == ("2", "true")
    controller.refuse = {1002: 2012}
    told = len(broker.notices)
    refused = await broker.membership.elect(2, designate=True)
    assert refused is not None and refused.code == 2012
    assert all(notice.source == "poll" for notice in broker.notices[told:])
    await broker.membership.close()


async def test_a_notice_that_no_controller_of_its_own_sent_only_makes_the_broker_ask(
    tmp_path: Path, controller: ScriptedController
) -> None:
    broker = Broker(tmp_path, controller)
    await broker.membership.register()
    ext = {
        "masterBrokerId": "66",
        "masterAddress": "evil:1",
        "masterEpoch": "9",
        "regentReplicas": "66=evil:1",
    }
    asked = sum(request.code == 1004 for request in controller.heard)
    broker.membership.notified(
        RemotingCommand.request(1008, ext | {"regentNoticeToken": "guessed"})
    )
    await until(
        lambda: sum(request.code == 1004 for request in controller.heard) > asked,
        "a controller was asked",
    )
    assert (
        all(notice.master_epoch < 9 for notice in broker.notices)
        and 66 not in broker.membership.replicas
    )
    await broker.membership.close()


async def test_each_start_tells_its_controllers_another_token(
    tmp_path: Path, controller: ScriptedController
) -> None:
    tokens = set()
    for _ in range(2):
        broker = Broker(tmp_path, controller)
        await broker.membership.register()
        await until(
            lambda: {904, 1003} <= {request.code for request in controller.heard}, "it spoke"
        )
        told = {
            request.ext.get("regentNoticeToken")
            for request in controller.heard
            if request.code in (904, 1003)
        }
        assert told == {broker.membership.me.notice_token} and told != {""}
        assert all(
            "regentNoticeToken" not in request.ext
            for request in controller.heard
            if request.code not in (904, 1003)
        )
        tokens |= told
        controller.heard.clear()
        await broker.membership.close()
    assert len(tokens) == 2
