"""The shell of the machine of acting slaves, at a name server, and at members that answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from brokers.acting.config import ActingConfig
from brokers.acting.lock_messages import LockRequest
from brokers.acting.lock_quorum import LockQuorum
from brokers.acting.messages import HaInfo, MinIdNotice, Place, ha_info_push
from brokers.clock import Clock
from brokers.membership.namesrv_client import NameServers, RouteEntry
from brokers.process.acting.calls import ActingCalls
from brokers.process.acting.requests import ActingLocks, ActingRequests
from brokers.process.acting.shell import ActingHooks, ActingShell
from brokers.process.acting.tables import OwnTables
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Handler
from brokers.replica.core_port import Core
from brokers.service.clients.queue_locks import QueueLocks
from brokers.service.reading.slave_reads import SlaveReads
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Where
from brokers.service.tables.table_files import TableFiles
from tests.support.brokers import until
from tests.support.fixed_pair import Pair

NAMES, MASTER = ("c", "a"), "127.0.0.1:1"


class Nobody:
    """A connection that nothing is sent over."""

    id = 1


NOBODY: Connection = Nobody()  # type: ignore[assignment]


class Rig:
    """A slave, or a master, without a store. `done`: what the shell asked the broker to do."""

    def __init__(
        self,
        folder: Path,
        name_server: str,
        broker_id: int,
        hosts: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.done: list[object] = []
        self.settles = True
        self.roles, self.reads = RoleView(), SlaveReads()
        self.client, files = RemotingClient(), TableFiles(folder)
        self.place = Place(*NAMES, broker_id, f"127.0.0.1:{10 + broker_id}")
        self.name_servers = NameServers([name_server], self.entry, 30_000)
        self.files = files
        self.calls = ActingCalls(
            self.place, self.name_servers, self.client, lambda: files.topics.version
        )
        self.members: Mapping[int, str] = {}
        config = ActingConfig(
            self.place,
            "127.0.0.1:99",
            (name_server,),
            heartbeat_ms=50,
            member_poll_ms=50,
            not_active_ms=60_000,
            compat=False,
        )
        self.shell = ActingShell(
            config,
            Clock(),
            self.calls,
            OwnTables(files, timers=True),
            self._hooks(),
            lambda: self.replica,
            opened_end=0,
            hosts_of=lambda address: (hosts or {}).get(address, frozenset()),
        )
        self.locks = ActingLocks(
            LockQuorum(QueueLocks(), "me", 3, strict=False),
            self.calls,
            Clock(),
            lambda: (),
            lambda topic, queue_id: queue_id < 4,
            lambda kind, fields: self.done.append((kind, dict(fields))),
        )
        self.begins: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.requests = ActingRequests(
            self.shell, self.roles, self.reads, self.locks, self.place.address, self._begun
        )
        self._task: asyncio.Task[None] | None = None
        self.replica: Core | None = None

    def _hooks(self) -> ActingHooks:
        return ActingHooks(
            register=self.name_servers.register,
            special=lambda on: self.done.append(("special", on)),
            over=self._over,
            act=self.roles.act,
            hold=lambda: self.done.append("hold"),
            resume=lambda: self.done.append("resume"),
            forget=lambda address: self.done.append(("forget", address)),
            follow=lambda address, ha_address: self.done.append(("follow", address, ha_address)),
            look_again=lambda: self.done.append("look again"),
            members=self._told,
            alive=lambda count: None,
            report=lambda kind, fields: self.done.append((kind, dict(fields))),
        )

    async def _begun(self, _limit_ms: int) -> bool:
        return await self.begins

    async def _over(self, _limit_ms: int) -> bool:
        self.done.append("over")
        return self.settles

    def _told(self, members: Mapping[int, str]) -> None:
        self.members = members

    def entry(self) -> RouteEntry | None:
        if not self.shell.may_register():
            return None
        place, topics = self.place, self.files.topics.text()
        return RouteEntry(
            *NAMES, place.broker_id, place.address, "127.0.0.1:99", 60_000, topics, True
        )

    async def start(self) -> None:
        self.name_servers.start()
        self._task = asyncio.ensure_future(self.shell.run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.name_servers.close(None)
        await self.client.close()


@pytest.fixture
async def slave(tmp_path: Path, name_server: str) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, name_server, 1)
    yield rig
    await rig.close()


async def test_a_slave_alone_goes_online_acts_and_is_registered(slave: Rig) -> None:
    assert slave.shell.isolated and not slave.shell.may_register()
    await slave.start()
    await until(lambda: slave.members == {1: slave.place.address}, "it is registered")
    assert slave.roles.acting and slave.done.count(("special", True)) == 1
    assert ("ActingBegan", {"min_address": slave.place.address}) in slave.done
    assert slave.files.offsets.version.counter >= 1 << 20


async def test_a_slave_that_acts_hears_of_its_master_and_follows_it(slave: Rig) -> None:
    await slave.start()
    await until(lambda: slave.roles.acting, "it acts")
    slave.shell.notice(MinIdNotice(0, MASTER, None, "127.0.0.1:2", None))
    assert not slave.roles.acting
    assert ("follow", MASTER, "127.0.0.1:2") in slave.done
    assert ("special", False) in slave.done and "look again" in slave.done


async def test_who_acts_delivers_nothing_that_a_master_has_just_written(slave: Rig) -> None:
    await slave.start()
    await until(lambda: slave.roles.acting, "it acts")
    pair = Pair(b"m" * 20, b"m" * 20)
    pair.now_ms = Clock().now_ms() - 5_000
    pair.run(rounds=30)
    slave.replica = pair.slave.core
    slave.shell._look_at_links()
    assert slave.shell.may_deliver() and ("special", False) not in slave.done
    pair.put(b"n" * 10)
    pair.run(rounds=5)
    slave.shell.may_deliver()
    assert slave.done[-1] == ("special", False) and slave.roles.acting


async def test_an_address_that_is_none_is_followed_by_nobody(slave: Rig) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        slave.shell.exchange(HaInfo("nowhere", None, MASTER))
    slave.shell.named(MASTER, "nowhere")
    assert slave.done == []
    assert slave.shell.exchange(HaInfo("127.0.0.1:2", None, MASTER)) == HaInfo()
    assert slave.done == [("follow", MASTER, "127.0.0.1:2")]


async def test_a_member_behind_a_name_is_known_by_the_numbers_of_it(
    tmp_path: Path, name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"broker-1:11": frozenset(("10.0.0.9",))}
    master = Rig(tmp_path, name_server, 0, known)
    master.replica = Pair(b"m" * 20, b"m" * 20).master.core
    master.shell.core.members = {0: master.place.address, 1: "broker-1:11"}
    told: list[object] = []
    monkeypatch.setattr(
        master.shell.core, "links_are", lambda links, hosts, *_: told.append(hosts) or []
    )
    master.replica.tick(1)
    master.shell._look_at_links()
    assert told == [{master.place.address: frozenset(), **known}]
    await master.close()


@pytest.mark.parametrize(("settles", "code"), [(True, 0), (False, ResponseCode.SYSTEM_BUSY)])
async def test_who_comes_back_hears_when_all_is_told(slave: Rig, settles: bool, code: int) -> None:
    await slave.start()
    await until(lambda: slave.roles.acting, "it acts")
    slave.settles = settles
    handle = slave.requests.own()[RequestCode.EXCHANGE_BROKER_HA_INFO]
    answer = handle(NOBODY, ha_info_push(HaInfo(comes_back=True)))
    assert answer is not None and not isinstance(answer, RemotingCommand)
    found = await answer
    assert found is not None and found.code == code
    assert slave.done[-2:] == [("special", False), "over"] and slave.roles.acting


async def test_a_master_says_where_it_takes_links(tmp_path: Path, name_server: str) -> None:
    master = Rig(tmp_path, name_server, 0)
    asked = RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO)
    answer = master.requests.own()[RequestCode.EXCHANGE_BROKER_HA_INFO](NOBODY, asked)
    assert isinstance(answer, RemotingCommand)
    assert answer.ext["masterHaAddress"] == "127.0.0.1:99"
    await master.close()


async def test_who_is_not_reached_has_no_tables(slave: Rig) -> None:
    assert await slave.calls.tables("127.0.0.1:1") is None
    assert await slave.calls.ha_info("127.0.0.1:1") is None
    assert not await slave.calls.push("127.0.0.1:1", HaInfo("127.0.0.1:2", 0, MASTER))


def _answers(text: str) -> Served:
    def serve(_connection: Connection, request: RemotingCommand) -> Answer:
        return request.reply(remark=text)

    return Served(serve, Where.MASTER)


async def _asked(
    rig: Rig, code: int, usual_code: int = 0, body: bytes = b"", serve: Handler | None = None
) -> RemotingCommand:
    async def usual(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(0)
        return request.reply(usual_code, remark="of the master")

    codes = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ, code)
    served = {int(one): _answers("of the slave") for one in codes}
    if serve is not None:
        served[int(code)] = Served(serve, Where.MASTER)
    handlers = rig.requests.before(dict.fromkeys(served, usual), served)
    answer = handlers[int(code)](NOBODY, RemotingCommand.request(code, body=body))
    found = await answer if not isinstance(answer, RemotingCommand | None) else answer
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("code", "reads", "acts", "answer"),
    [
        (RequestCode.QUERY_CONSUMER_OFFSET, True, False, (0, "of the master")),
        (RequestCode.QUERY_CONSUMER_OFFSET, True, True, (0, "of the slave")),
        (RequestCode.PULL_MESSAGE, True, True, (0, "of the slave")),
        (RequestCode.PULL_MESSAGE, False, True, (ResponseCode.SYSTEM_BUSY, None)),
        (RequestCode.SEND_MESSAGE_V2, True, True, (ResponseCode.SERVICE_NOT_AVAILABLE, None)),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, True, True, (ResponseCode.SYSTEM_ERROR, None)),
    ],
)
async def test_a_slave_that_acts_answers_by_the_table(
    slave: Rig, code: int, reads: bool, acts: bool, answer: tuple[int, str | None]
) -> None:
    slave.reads.enabled = reads
    slave.roles.act(acts)
    found = await _asked(slave, code)
    assert found.code == answer[0] and answer[1] in (None, found.remark)


async def test_who_waited_for_the_master_is_served_by_who_acts(slave: Rig) -> None:
    asking = asyncio.ensure_future(
        _asked(slave, RequestCode.GET_MAX_OFFSET, ResponseCode.SERVICE_NOT_AVAILABLE)
    )
    await asyncio.sleep(0)
    slave.roles.act(True)
    assert (await asking).remark == "of the slave"


ACKNOWLEDGED = RequestCode.ACK_MESSAGE


async def test_what_is_said_of_pops_waits_until_something_can_leave(slave: Rig) -> None:
    slave.roles.act(True)
    asking = asyncio.ensure_future(_asked(slave, ACKNOWLEDGED))
    await asyncio.sleep(0)
    assert not asking.done()
    slave.begins.set_result(True)
    assert (await asking).remark == "of the slave"


async def test_who_waited_for_something_to_leave_is_served_by_the_master_that_is_back(
    slave: Rig,
) -> None:
    slave.roles.act(True)
    asking = asyncio.ensure_future(_asked(slave, ACKNOWLEDGED))
    await asyncio.sleep(0)
    slave.roles.act(False)
    slave.begins.set_result(False)
    assert (await asking).remark == "of the master"


@pytest.mark.parametrize(
    ("code", "over", "answer"),
    [
        (ResponseCode.SYSTEM_ERROR, True, "of the master"),
        (ResponseCode.SERVICE_NOT_AVAILABLE, True, "of the master"),
        (ResponseCode.SYSTEM_ERROR, False, "of the slave"),
        (ResponseCode.SUCCESS, True, "of the slave"),
        (ResponseCode.MESSAGE_ILLEGAL, True, "of the slave"),
    ],
)
async def test_what_is_refused_when_the_master_is_back_is_the_masters(
    slave: Rig, code: int, over: bool, answer: str
) -> None:
    slave.roles.act(True)
    slave.begins.set_result(True)

    async def serve(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        slave.roles.act(not over)
        return request.reply(code, remark="of the slave")

    found = await _asked(slave, ACKNOWLEDGED, serve=serve)
    assert found.remark == answer


async def test_a_member_votes_in_any_role_and_a_client_is_passed_on(slave: Rig) -> None:
    queue = ("a", "t", 0)
    vote = LockRequest("g", "me", (queue,), only_this_broker=True)
    found = await _asked(slave, RequestCode.LOCK_BATCH_MQ, body=vote.body())
    assert b'"queueId":0' in found.body
    client = LockRequest("g", "me", (queue,))
    passed = await _asked(slave, RequestCode.LOCK_BATCH_MQ, body=client.body())
    assert passed.remark == "of the master"
    slave.roles.act(True)
    refused = LockRequest("g", "another", (queue, ("a", "t", 9)))
    found = await _asked(slave, RequestCode.LOCK_BATCH_MQ, body=refused.body())
    assert found.body == b'{"lockOKMQSet":[]}'
    wrong = await _asked(slave, RequestCode.LOCK_BATCH_MQ, body=b"[]")
    assert wrong.code == ResponseCode.SYSTEM_ERROR
