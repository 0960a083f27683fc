"""Sets without a controller over real sockets: both dialects of brokers, notices, leaving."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from brokers.remoting.codes import RequestCode
from brokers.remoting.server import RemotingServer
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.unit.processors.nameserver.test_process import WAIT_S, A, B, Caller, name_server, until

NOTIFIES = {"notify_min_broker_id_changed": True}
ACTING = {"enableActingMaster": "true"}


class Broker:
    """Listens for notices, and speaks to the name server over a connection of its own."""

    def __init__(self, name_server_address):
        self.caller, self.notices = Caller(name_server_address), []
        self.server = RemotingServer(self._noticed)

    def _noticed(self, connection, request):
        assert request.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE and request.flag & 2
        self.notices.append(request.ext)

    @property
    def address(self):
        return f"127.0.0.1:{self.server.port}"

    async def register(self, broker_id, **ext):
        return await self.caller.register(
            broker_id, self.address, state_version=0, **(ACTING | ext)
        )


@asynccontextmanager
async def brokers(caller, count):
    found = [Broker(caller.address) for _ in range(count)]
    try:
        for one in found:
            await one.server.start()
        yield found
    finally:
        for one in found:
            await one.caller.client.close()
            await one.server.close()


def who(address=A, broker_id=0, name="g"):
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": "DefaultCluster",
        "brokerId": str(broker_id),
    }


async def perm(caller):
    return (await caller.body(105, topic="Life"))["queueDatas"][0]["perm"]


async def test_slaves_hear_of_a_lost_master_and_of_its_return():
    async with name_server(**NOTIFIES) as client, brokers(client, 3) as (master, first, second):
        for broker_id, one in enumerate((master, first, second)):
            await one.register(broker_id)
        await master.caller.client.close()
        gone = {
            "minBrokerId": "1",
            "minBrokerAddr": first.address,
            "offlineBrokerAddr": master.address,
        }
        await until(lambda: _are(first.notices, [gone]))
        await until(lambda: _are(second.notices, [gone]))
        assert await client.route() == {"0": first.address, "2": second.address}
        assert await perm(client) == 4
        master.caller = Caller(client.address)
        await master.register(0)
        back = {
            "minBrokerId": "0",
            "minBrokerAddr": master.address,
            "haBrokerAddr": master.address + "1",
        }
        await until(lambda: _are(first.notices, [gone, back]))
        await until(lambda: _are(second.notices, [gone, back]))
        assert master.notices == []
        assert await client.route() == {
            str(number): one.address for number, one in enumerate((master, first, second))
        }
        assert await perm(client) == 6


async def _are(found, wanted):
    return found == wanted


async def test_nobody_is_told_unless_it_is_wanted(tmp_path):
    """The switch counts at once: the first change is not told, the second one is."""
    async with name_server(data_dir=str(tmp_path)) as client, brokers(client, 3) as found:
        first, second, third = found
        await first.register(3)
        await second.register(2)
        assert (await client.call(318, {}, b"notifyMinBrokerIdChanged=true")).code == 0
        await third.register(1)
        await until(lambda: _count(second, 1))
        assert [notice["minBrokerId"] for notice in first.notices] == ["1"]


async def _count(broker, count):
    return len(broker.notices) == count


async def test_without_the_mode_routes_name_ids_as_they_are(tmp_path):
    async with name_server(support_acting_master=False, data_dir=str(tmp_path)) as client:
        await client.register(1, A, state_version=0, **ACTING)
        assert await client.route() == {"1": A}
        assert (await client.call(318, {}, b"supportActingMaster=true")).code == 0
        assert await client.route() == {"0": A}


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.BROKER_HEARTBEAT, b""),
        (RequestCode.QUERY_DATA_VERSION, b'{"counter":1,"stateVersion":0,"timestamp":1000}'),
    ],
)
async def test_a_heartbeat_of_either_dialect_keeps_a_broker(code, body):
    """One that beats stays, one that does not leaves."""
    async with name_server(3, scan_interval_ms=50) as (beating, silent, client):
        for caller, address, name in ((silent, B, "h"), (beating, A, "g")):
            await caller.register(0, address, brokerName=name, heartbeatTimeoutMillis="2000")

        async def only_the_silent_one_left():
            await beating.call(code, who(), body)
            return await _names(client) == {"g"}

        await until(only_the_silent_one_left)


async def _names(client):
    table = (await client.body(RequestCode.GET_BROKER_CLUSTER_INFO))["brokerAddrTable"]
    return set(table)


async def test_a_silent_broker_leaves_alone_where_another_speaks_over_its_connection():
    async with name_server(2, scan_interval_ms=50) as (shared, client):
        await shared.register(0, A, heartbeatTimeoutMillis="100")
        await shared.register(0, B, brokerName="h")
        connection = shared.client.connection(shared.address)

        async def left():
            return await _names(client) == {"h"}

        await until(left)
        assert not connection.closed


async def test_a_late_goodbye_takes_nothing_from_the_process_that_came_after():
    async with name_server(2) as (before, after):
        await before.register()
        await after.register()
        assert (await before.call(RequestCode.UNREGISTER_BROKER, who())).code == 0
        await before.client.close()
        assert await after.route() == {"0": A}
        assert (await after.call(RequestCode.UNREGISTER_BROKER, who())).code == 0
        assert await after.route() is None


async def test_a_registration_counts_before_what_was_sent_after_it():
    async with name_server(2) as (broker, client):
        await broker.body(RequestCode.REGENT_PROCESS_STATUS)
        said = [broker.register(), broker.call(RequestCode.UNREGISTER_BROKER, who())]
        async with asyncio.timeout(WAIT_S):
            assert [answer.code for answer in await asyncio.gather(*said)] == [0, 0]
        assert await client.route() is None


async def test_a_goodbye_without_room_is_answered_with_1_and_the_rest_leave():
    async with name_server(2, departures_max=1) as (broker, client):
        await broker.register(0, A)
        await broker.register(0, B, brokerName="h")
        # both in one packet, so that none has left when the second comes
        said = [
            broker.call(RequestCode.UNREGISTER_BROKER, who(A)),
            broker.call(RequestCode.UNREGISTER_BROKER, who(B, name="h")),
        ]
        answers = await asyncio.gather(*said)
        assert sorted(answer.code for answer in answers) == [0, 1]
        assert "ask again" in (max(answers, key=lambda one: one.code).remark or "")
        assert len(await _names(client)) == 1


async def test_what_found_no_room_leaves_with_the_next_scan():
    async with name_server(2, departures_max=1, scan_interval_ms=50) as (broker, client):
        for number in range(5):
            await broker.register(0, f"10.0.0.{number}:1", brokerName=f"g{number}")
        await broker.client.close()

        async def all_left():
            return not await _names(client)

        await until(all_left)


@pytest.mark.parametrize("code", [104, 322, 901, 904])
async def test_a_request_without_its_fields_is_answered_with_1(code):
    async with name_server() as caller:
        answer = await caller.call(code)
        assert (answer.code, "is null" in answer.remark) == (1, True)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"counter":"x"}', b"\xff", b"{" * 5_000])
async def test_a_version_that_cannot_be_read_is_answered_with_1(body):
    async with name_server() as caller:
        assert (await caller.call(RequestCode.QUERY_DATA_VERSION, who(), body)).code == 1


async def test_while_it_warms_up_only_routes_are_refused():
    async with name_server(need_wait_for_service=True, wait_for_service_s=600) as caller:
        assert (await caller.register()).code == 0
        answer = await caller.call(105, {"topic": "Life"})
        assert (answer.code, answer.remark) == (1, "name server not ready")
        group = await caller.body(901, clusterName="DefaultCluster", brokerName="g")
        assert group["brokerMemberGroup"]["brokerAddrs"] == {"0": A}
        assert await _names(caller) == {"g"}


async def test_members_are_told_with_true_ids_and_quoted_keys():
    async with name_server(2) as (first, second):
        await first.register(1, A, state_version=0, **ACTING)
        await second.register(2, B, state_version=0, **ACTING)
        answer = await first.call(901, {"clusterName": "C", "brokerName": "g"})
        members = {"brokerAddrs": {"1": A, "2": B}, "brokerName": "g", "cluster": "C"}
        assert json.loads(answer.body) == {"brokerMemberGroup": members}
        assert await first.route() == {"0": A, "2": B}


async def test_a_name_server_that_stood_still_takes_nobody_out_for_it():
    """What it did not hear meanwhile still lies in its sockets."""
    server = NameServer(NameServerConfig(listen="127.0.0.1:0", scan_interval_ms=600_000))
    await server.start()
    caller, client = (Caller(f"127.0.0.1:{server.port}") for _ in range(2))
    try:
        await caller.register(0, A, heartbeatTimeoutMillis="60000")
        live = server._table._live[A]
        live.last_heard_ms -= 70_000
        server._scan(live.last_heard_ms)
        assert await caller.route() == {"0": A}
        live.last_heard_ms -= 70_000
        server._scan()
        assert await client.route() is None
    finally:
        await caller.client.close()
        await client.client.close()
        await server.close()
