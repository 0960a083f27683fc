"""A set without controllers whose slaves act for the master, in processes of its own: the master is
killed, and frozen, and comes back (PROTOCOL 7).
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting.lock_messages import LockRequest, read_lock_answer
from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.features.pop_requests import pop_request
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.acting_set import BROKER_SET, ActingBroker, ActingSetView, eventually
from tests.support.brokers import pull_request, send_request

TOPIC, GROUP, READ, READ_WRITE = "T", "cg", 4, 6


class Stage:
    """A master and two slaves at one name server."""

    def __init__(self, folder: Path, name_server: str, client: RemotingClient) -> None:
        self.client, self.view = client, ActingSetView(client, name_server)
        strict = "lock_in_strict_mode = true\n"
        self.brokers = [ActingBroker(folder, number, name_server, strict) for number in range(3)]
        self.master, self.slave, self.other = self.brokers

    async def start(self) -> None:
        """The master first: a slave that comes before it acts, as the smallest that lives."""

        async def is_there(broker: ActingBroker) -> bool:
            return broker.address in (await self.view.members()).values()

        for one in self.brokers:
            await one.start()
            await eventually(lambda one=one: is_there(one), f"{one.address} is registered")
        await eventually(self.is_whole, "the set is whole")

    async def is_whole(self) -> bool:
        members = await self.view.members()
        return len(members) == 3 and await self.view.links(self.master.address) == 2

    async def leads(self, broker: ActingBroker, perm: int) -> bool:
        return await self.view.leads(TOPIC) == (broker.address, perm)

    async def ask(self, broker: ActingBroker, request: RemotingCommand) -> RemotingCommand:
        return await self.client.call(broker.address, request, 30_000)

    async def send(self, count: int) -> None:
        for number in range(count):
            answer = await self.ask(self.master, send_request(TOPIC, b"body %d" % number))
            assert answer.code == 0, answer.remark

    async def commit(self, broker: ActingBroker, offset: int) -> None:
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
        request = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        answer = await self.ask(broker, request)
        assert answer.code == 0, answer.remark

    async def committed(self, broker: ActingBroker) -> int:
        ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
        request = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        answer = await self.ask(broker, request)
        return int(answer.ext["offset"]) if answer.code == 0 else -1

    async def copied(self, broker: ActingBroker) -> dict[str, int]:
        """A slave's own consumer offsets."""
        request = RemotingCommand.request(RequestCode.GET_ALL_CONSUMER_OFFSET)
        answer = await self.client.call(broker.address, request, 3_000)
        found = fastjson.loads(answer.body)["offsetTable"] if answer.code == 0 else {}
        return dict(found.get(f"{TOPIC}@{GROUP}", {}))

    async def knows_topic(self, broker: ActingBroker) -> bool:
        request = RemotingCommand.request(RequestCode.GET_ALL_TOPIC_CONFIG)
        answer = await self.client.call(broker.address, request, 3_000)
        return TOPIC in fastjson.loads(answer.body)["topicConfigTable"]

    async def all_have_all(self) -> bool:
        request = RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS)
        answer = await self.client.call(self.master.address, request, 3_000)
        links = fastjson.loads(answer.body)["haConnectionInfo"]
        return len(links) == 2 and all(one["diff"] == 0 for one in links)

    async def prepared(self) -> None:
        """20 messages on all three, and a group that has read half of them."""
        await self.start()
        await self.send(20)
        await self.commit(self.master, 10)

        async def known() -> bool:
            slaves = self.slave, self.other
            topic = all([await self.knows_topic(one) for one in slaves])
            offsets = all([await self.copied(one) == {"0": 10} for one in slaves])
            return topic and offsets and await self.all_have_all()

        await eventually(known, "the slaves have copied everything")

    async def pulled(self, broker: ActingBroker, offset: int, suspend_ms: int = 0) -> int:
        request = pull_request(TOPIC, 0, offset, suspend_ms=suspend_ms, group=GROUP)
        return (await self.ask(broker, request)).code

    async def locked(self, broker: ActingBroker, client_id: str) -> bool:
        """Whether this client of an orderly group gets the queue there. Not from a slave that has
        not heard yet that it acts: its name server knows that first.
        """
        request = LockRequest(GROUP, client_id, ((BROKER_SET, TOPIC, 0),))
        answer = await self.ask(broker, request.command(RequestCode.LOCK_BATCH_MQ))
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            return False
        return bool(read_lock_answer(answer)[0])

    async def goes_on_from_the_slave(self) -> None:
        await eventually(lambda: self.leads(self.slave, READ), "the slave acts")
        assert await self.committed(self.slave) == 10
        assert await self.pulled(self.slave, 10) == ResponseCode.SUCCESS
        await self.commit(self.slave, 20)
        assert await self.committed(self.slave) == 20
        refused = await self.ask(self.slave, send_request(TOPIC, b"no"))
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        # A popped message needs a record of it, which nobody here may store.
        popped = await self.ask(self.slave, pop_request(TOPIC, "poppers"))
        assert popped.code not in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), popped

    async def master_leads_with_what_the_slave_knew(self) -> None:
        await eventually(lambda: self.leads(self.master, READ_WRITE), "the master is back")
        assert await self.committed(self.master) == 20
        await eventually(self.is_whole, "the set is whole again")
        await self.send(5)
        assert await self.pulled(self.master, 20) == ResponseCode.SUCCESS


@pytest.fixture
async def stage(tmp_path: Path, client: RemotingClient) -> AsyncIterator[Stage]:
    server = NameServer(NameServerConfig(listen="127.0.0.1:0", scan_interval_ms=100))
    await server.start()
    made = Stage(tmp_path, f"127.0.0.1:{server.port}", client)
    try:
        yield made
    finally:
        for one in made.brokers:
            await one.end()
        await server.close()


@pytest.mark.long
async def test_a_lock_is_renewed_at_the_slave_once_all_remember(stage: Stage) -> None:
    """A set that is new gives locks while all its members are there: with one away, when a minute
    is over.
    """
    await stage.prepared()
    assert await stage.locked(stage.master, "first")
    await stage.master.end()
    await eventually(lambda: stage.leads(stage.slave, READ), "the slave acts")

    async def renewed() -> bool:
        assert not await stage.locked(stage.slave, "second"), "the votes are the first one's"
        return await stage.locked(stage.slave, "first")

    await eventually(renewed, "the first one has it still", within_s=120)


async def test_a_slave_acts_for_a_killed_master_which_takes_over_what_was_read_meanwhile(
    stage: Stage,
) -> None:
    await stage.prepared()
    assert await stage.locked(stage.master, "first")
    await stage.master.end()
    await stage.goes_on_from_the_slave()
    assert not await stage.locked(stage.slave, "second"), "the set's votes are the first one's"
    ahead = await stage.pulled(stage.slave, 25)
    assert ahead == ResponseCode.PULL_NOT_FOUND, "who is ahead of the slave waits"
    assert stage.slave.said("special services on")
    assert stage.other.said("special services on") == 0
    await stage.master.start()
    await stage.master_leads_with_what_the_slave_knew()
    assert stage.master.said("PreOnlineOver") == 2, "at each of its two starts"
    assert stage.slave.said("special services off: another one delivers"), "before it was online"

    async def over() -> bool:
        return stage.slave.said("ActingOver") > 0

    await eventually(over, "the slave acts no more")

    async def passes_on() -> bool:
        try:
            return await stage.committed(stage.slave) == 20
        except RemotingError:
            return False

    await eventually(passes_on, "the slave passes on what is its master's")


async def test_a_master_that_froze_until_it_was_dropped_fences_itself_and_comes_back(
    stage: Stage,
) -> None:
    await stage.prepared()
    stage.master.tell(signal.SIGSTOP)
    await stage.goes_on_from_the_slave()
    stage.master.tell(signal.SIGCONT)
    await stage.master_leads_with_what_the_slave_knew()
    assert stage.master.said("this master was taken for dead") == 1
    assert stage.master.said("PreOnlineOver") == 2
