"""Two sets without controllers in processes of their own: the master of one is killed while delayed
and timed messages wait; its slave delivers through the other set what is due meanwhile, the master
comes back and delivers the rest (PROTOCOL 7).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.acting_set import ActingBroker, ActingSetView, eventually
from tests.support.brokers import pull_request, send_request
from tests.support.timers import timed

ESCAPES = "enable_remote_escape = true\n"
EACH = 40
SET = "acting-set"


class Stage:
    def __init__(self, folder: Path, name_server: str, client: RemotingClient) -> None:
        self.client, self.view = client, ActingSetView(client, name_server)
        (folder / "a").mkdir()
        (folder / "b").mkdir()
        self.master = ActingBroker(folder / "a", 0, name_server, ESCAPES)
        self.slave = ActingBroker(folder / "a", 1, name_server, ESCAPES)
        self.elsewhere = ActingBroker(folder / "b", 0, name_server, ESCAPES)
        for one, name, replicas in (
            (self.master, "acting-set", 2),
            (self.slave, "acting-set", 2),
            (self.elsewhere, "other-set", 1),
        ):
            text = one.config.read_text().replace("acting-set", name)
            text = text.replace("total_replicas = 3", f"total_replicas = {replicas}")
            one.config.write_text(text.replace("in_sync_replicas = 2", "in_sync_replicas = 1"))

    @property
    def brokers(self) -> tuple[ActingBroker, ...]:
        return self.master, self.slave, self.elsewhere

    async def ask(self, broker: ActingBroker, request: RemotingCommand) -> RemotingCommand:
        answer = await self.client.call(broker.address, request, 30_000)
        assert answer.code == 0, answer.remark
        return answer

    async def start(self) -> None:
        """The master first: a slave that comes before it acts."""
        for one in (self.elsewhere, self.master):
            await one.start()

            async def takes(one: ActingBroker = one) -> bool:
                try:
                    request = send_request("T", b"first")
                    return (await self.client.call(one.address, request, 3_000)).code == 0
                except RemotingError:
                    return False

            await eventually(takes, "a master leads")
        await self.slave.start()
        await eventually(self.is_whole, "the set is whole")

    async def is_whole(self) -> bool:
        members = await self.view.members()
        return len(members) == 2 and await self.view.links(self.master.address) == 1

    async def copied(self) -> bool:
        ask = RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS)
        links = fastjson.loads((await self.ask(self.master, ask)).body)["haConnectionInfo"]
        topics = await self.ask(
            self.slave, RemotingCommand.request(RequestCode.GET_ALL_TOPIC_CONFIG)
        )
        return (
            len(links) == 1
            and links[0]["diff"] == 0
            and "T" in fastjson.loads(topics.body)["topicConfigTable"]
        )

    async def there(self, broker: ActingBroker, topic: str = "T") -> Counter[bytes]:
        """All that was delivered to a topic of a set."""
        found: Counter[bytes] = Counter()
        for queue_id in range(4):
            offset = 0
            while True:
                request = pull_request(topic, queue_id, offset)
                answer = await self.client.call(broker.address, request, 30_000)
                if answer.code:
                    break
                records = decode_messages(answer.body)
                found.update(bytes(one.fields.body) for one in records)
                offset = records[-1].queue_offset + 1
        found.pop(b"first", None)
        return found


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


def delayed(body: bytes, level: int) -> RemotingCommand:
    request = send_request("T", body, key=body.decode())
    request.ext["i"] += f"DELAY\x01{level}\x02"
    return request


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_what_is_due_while_the_master_is_away_comes_through_the_other_set_once(
    stage: Stage,
) -> None:
    await stage.start()
    now_ms = int(time.time() * 1000)
    soon, late = [], []
    for number in range(EACH):
        soon += [b"level-%d" % number, b"timed-%d" % number]
        late += [b"late-level-%d" % number, b"late-timed-%d" % number]
        await stage.ask(stage.master, delayed(soon[-2], 3))
        await stage.ask(stage.master, timed(soon[-1], {"TIMER_DELIVER_MS": now_ms + 12_000}))
        await stage.ask(stage.master, delayed(late[-2], 5))
        await stage.ask(stage.master, timed(late[-1], {"TIMER_DELIVER_MS": now_ms + 62_000}))
    await eventually(stage.copied, "the slave has all")
    assert not await stage.there(stage.master)
    await stage.master.end()

    async def all_there() -> bool:
        return set(await stage.there(stage.elsewhere)) >= set(soon)

    await eventually(all_there, "what is due is in the other set")
    await stage.master.start()
    await eventually(stage.is_whole, "the master is back")

    async def rest_here() -> bool:
        here, elsewhere = await stage.there(stage.master), await stage.there(stage.elsewhere)
        return set(here + elsewhere) >= {*soon, *late}

    await eventually(rest_here, "the rest is delivered")
    here, elsewhere = await stage.there(stage.master), await stage.there(stage.elsewhere)
    both = here + elsewhere
    twice = {body: count for body, count in both.items() if count > 1}
    assert not twice


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_who_pops_goes_on_at_the_slave_and_what_it_leaves_comes_from_the_other_set(
    stage: Stage,
) -> None:
    await stage.start()
    for number in range(3):
        await stage.ask(stage.master, send_request("T", b"%d" % number, 0))
    known = gotten(await stage.ask(stage.master, pop_request(queueId=0, maxMsgNums=1)), SET)
    await stage.ask(stage.master, ack_request(known[0].handle))

    async def is_copied() -> bool:
        ask = RemotingCommand.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        groups = await stage.ask(stage.slave, ask)
        return await stage.copied() and b'"g"' in groups.body

    await eventually(is_copied, "the slave has messages, topic and group")
    await stage.master.end()
    found: list[Gotten] = []

    async def pops() -> bool:
        request = pop_request(queueId=0, invisibleTime=4_000)
        answer = await stage.client.call(stage.slave.address, request, 30_000)
        if answer.code == 0:
            found.extend(gotten(answer, SET))
        return {one.body for one in found} >= {b"1", b"2"}

    await eventually(pops, "the slave hands out what the master had not")
    acknowledged = next(one for one in found if one.body == b"1")
    await stage.ask(stage.slave, ack_request(acknowledged.handle))

    async def comes_again() -> bool:
        return b"2" in await stage.there(stage.elsewhere, "%RETRY%g_T")

    await eventually(comes_again, "what was not acknowledged comes from the other set")
    assert b"1" not in await stage.there(stage.elsewhere, "%RETRY%g_T")
