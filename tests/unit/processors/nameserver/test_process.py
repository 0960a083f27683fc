"""The name server over real sockets: what brokers register is what clients are told."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codec import FrameDecoder
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from processors.nameserver import process as namesrv_process
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer, run
from tests.support.brokers import free_port

WIRE = Path(__file__).parents[3] / "golden" / "wire"
WAIT_S = 60
TOPICS = ("Life", "TBW102")
A, B = "10.0.0.1:10911", "10.0.0.2:10911"


class Caller:
    """One connection to the name server, as a broker or client has it."""

    def __init__(self, address):
        self.address, self.client = address, RemotingClient()

    async def call(self, code, ext=None, body=b"", language="PYTHON"):
        request = RemotingCommand.request(code, ext, body)
        request.language = language
        return await self.client.call(self.address, request, 30_000)

    async def body(self, code, **ext):
        answer = await self.call(code, ext)
        assert answer.code == 0
        return json.loads(answer.body)

    async def register(
        self, broker_id=0, address=A, state_version=1, topics=TOPICS, language="PYTHON", **ext
    ):
        version = {"counter": 1, "stateVersion": state_version, "timestamp": 1_000}
        table = {name: {"perm": 6, "readQueueNums": 2, "writeQueueNums": 2} for name in topics}
        wrapper = {
            "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}
        }
        fields = {
            "brokerName": "g",
            "brokerAddr": address,
            "clusterName": "DefaultCluster",
            "brokerId": str(broker_id),
            "haServerAddr": address + "1",
        }
        return await self.call(
            RequestCode.REGISTER_BROKER, fields | ext, json.dumps(wrapper).encode(), language
        )

    async def route(self, topic="Life"):
        answer = await self.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return (
            None if answer.code == 17 else json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"]
        )


@asynccontextmanager
async def name_server(callers=1, **settings):
    server = NameServer(NameServerConfig(listen="127.0.0.1:0", **settings))
    await server.start()
    group = [Caller(f"127.0.0.1:{server.port}") for _ in range(callers)]
    try:
        yield group[0] if callers == 1 else group
    finally:
        for caller in group:
            await caller.client.close()
        await server.close()


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not await condition():
            await asyncio.sleep(0.005)


def recorded(name):
    lines = [json.loads(line) for line in (WIRE / f"{name}.jsonl").read_text().splitlines()]
    return [FrameDecoder().feed(bytes.fromhex(line["raw_hex"]))[0] for line in lines]


async def test_a_recorded_java_registration_is_answered_as_the_java_name_server_does():
    master, slave = [
        frame for frame in recorded("broker-namesrv") if frame.code == 103 and not frame.is_response
    ]
    async with name_server(2) as (first, second):
        answer = await first.client.call(first.address, master, 10_000)
        assert (answer.code, answer.ext, answer.body) == (0, {}, b"")
        answer = await second.client.call(second.address, slave, 10_000)
        assert answer.ext == {
            "haServerAddr": master.ext["haServerAddr"],
            "masterAddr": master.ext["brokerAddr"],
        }
        assert await second.route("BenchmarkTest") == {
            "0": "127.0.0.1:20911",
            "2": "127.0.0.1:20931",
        }


async def test_a_java_slave_that_comes_before_its_new_master_is_answered_when_the_master_is_there(
    monkeypatch,
):
    monkeypatch.setattr(namesrv_process, "MASTER_WAIT_MS", 600_000)
    async with name_server(3) as (master, slave, other):
        early = asyncio.ensure_future(slave.register(2, B, language="JAVA"))
        await until(lambda: _members_are(other, {"2": B}))
        assert not early.done()
        await master.register(0, A, state_version=2)
        assert (await early).ext == {"haServerAddr": A + "1", "masterAddr": A}


async def test_a_java_slave_whose_master_does_not_come_is_answered_all_the_same(monkeypatch):
    monkeypatch.setattr(namesrv_process, "MASTER_WAIT_MS", 10)
    async with name_server() as slave:
        assert (await slave.register(2, B, language="JAVA")).ext == {}


async def test_a_slave_without_a_controller_or_of_ours_is_answered_at_once(monkeypatch):
    monkeypatch.setattr(namesrv_process, "MASTER_WAIT_MS", 600_000)
    async with name_server(2) as (java, ours):
        assert (await java.register(2, B, state_version=0, language="JAVA")).ext == {}
        assert (await ours.register(3, "10.0.0.3:10911")).ext == {}


async def _members_are(caller, addresses):
    group = await caller.body(
        RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="DefaultCluster", brokerName="g"
    )
    return group["brokerMemberGroup"]["brokerAddrs"] == addresses


async def test_a_route_is_what_the_java_name_server_answers_byte_for_byte():
    expected = next(
        frame.body for frame in recorded("client-namesrv") if b"queueDatas" in frame.body
    )
    async with name_server(3) as (first, second, third):
        await first.register(0, "127.0.0.1:25911")
        await second.register(2, "127.0.0.1:25931")
        await third.register(3, "127.0.0.1:25921")
        answer = await first.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Life"})
        assert answer.body == expected


async def test_cluster_info_equals_the_recorded_one():
    expected = max(
        (frame.body for frame in recorded("client-namesrv") if b"clusterAddrTable" in frame.body),
        key=len,
    )
    async with name_server(3) as (first, second, third):
        await first.register(0, "127.0.0.1:25911")
        await second.register(2, "127.0.0.1:25931")
        await third.register(3, "127.0.0.1:25921")
        assert await first.body(RequestCode.GET_BROKER_CLUSTER_INFO) == fastjson.loads(expected)


async def test_an_unknown_topic_is_answered_with_17_and_the_recorded_remark():
    expected = next(frame for frame in recorded("client-namesrv") if frame.code == 17)
    async with name_server() as caller:
        answer = await caller.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "LifeAuto"})
        assert (answer.code, answer.remark) == (17, expected.remark)


async def test_when_the_connection_of_a_master_closes_it_leaves_the_route_and_the_slave_stays():
    async with name_server(2) as (master, slave):
        await master.register(0, A)
        await slave.register(2, B)
        assert await slave.route() == {"0": A, "2": B}
        await master.client.close()

        async def gone():
            return await slave.route() == {"2": B}

        await until(gone)


async def test_a_new_master_replaces_the_old_one_at_once_and_the_old_one_cannot_come_back():
    async with name_server(2) as (old, new):
        await old.register(0, A, state_version=1)
        await new.register(2, B, state_version=1)
        await new.register(0, B, state_version=2)
        assert await old.route() == {"0": B}
        answer = await old.register(0, A, state_version=1)
        assert (answer.code, answer.ext) == (0, {})
        assert await old.route() == {"0": B}
        assert (await old.register(1, A, state_version=2)).ext["masterAddr"] == B
        assert await old.route() == {"0": B, "1": A}


async def test_a_silent_broker_expires_and_its_connection_is_closed():
    async with name_server(2, scan_interval_ms=50) as (broker, client):
        await broker.register(heartbeatTimeoutMillis="100")
        connection = broker.client.connection(broker.address)

        async def gone():
            return connection.closed and await client.route() is None

        await until(gone)


async def test_heartbeats_and_version_questions_are_answered():
    ext = {"brokerName": "g", "brokerAddr": A, "clusterName": "DefaultCluster", "brokerId": "0"}
    same = {"counter": 1, "stateVersion": 1, "timestamp": 1_000}
    async with name_server() as broker:
        answer = await broker.call(RequestCode.QUERY_DATA_VERSION, ext, fastjson.dumps(same))
        assert (answer.code, answer.ext, answer.body) == (0, {"changed": "true"}, b"")
        await broker.register()
        answer = await broker.call(RequestCode.QUERY_DATA_VERSION, ext, fastjson.dumps(same))
        assert (answer.ext, json.loads(answer.body)) == ({"changed": "false"}, same)
        answer = await broker.call(
            RequestCode.QUERY_DATA_VERSION, ext, fastjson.dumps(same | {"counter": 2})
        )
        assert answer.ext == {"changed": "true"}
        assert (await broker.call(RequestCode.BROKER_HEARTBEAT, ext)).code == 0


async def test_a_broker_that_unregisters_leaves_the_route():
    ext = {"brokerName": "g", "brokerAddr": A, "clusterName": "DefaultCluster", "brokerId": "0"}
    async with name_server() as broker:
        await broker.register()
        assert (await broker.call(RequestCode.UNREGISTER_BROKER, ext)).code == 0
        assert await broker.route() is None


async def test_members_topics_and_key_values_are_answered():
    async with name_server() as broker:
        await broker.register()
        group = await broker.body(
            RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="C", brokerName="g"
        )
        assert group == {
            "brokerMemberGroup": {"brokerAddrs": {"0": A}, "brokerName": "g", "cluster": "C"}
        }
        topics = await broker.body(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert topics == {"topicList": ["Life", "TBW102"]}
        answer = await broker.call(
            RequestCode.GET_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
        )
        assert (answer.code, answer.remark) == (
            22,
            "No config item, Namespace: ORDER_TOPIC_CONFIG Key: T",
        )


@pytest.mark.parametrize(
    ("topics", "ext", "remark"),
    [
        (("Life",), {}, "register broker failed"),
        (TOPICS, {"bodyCrc32": "1"}, "crc32 not match"),
        (TOPICS, {"brokerId": "x"}, "brokerId is no number: 'x'"),
    ],
)
async def test_a_refused_registration_is_code_1_and_changes_nothing(topics, ext, remark):
    async with name_server() as broker:
        answer = await broker.register(topics=topics, **ext)
        assert (answer.code, answer.remark) == (1, remark)
        assert await broker.route() is None


async def test_an_unknown_code_is_answered_with_3():
    async with name_server() as caller:
        answer = await caller.call(9999)
        assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


async def test_the_status_says_that_it_is_ready_and_what_it_knows():
    async with name_server() as broker:
        await broker.register()
        status = await broker.body(RequestCode.REGENT_PROCESS_STATUS)
        assert status | {"listen": ""} == {
            "ready": True,
            "kind": "namesrv",
            "pid": os.getpid(),
            "listen": "",
            "brokers": 1,
            "topics": 2,
        }
        assert status["listen"] == broker.address


async def test_a_busy_port_is_one_line_and_exit_code_1(caplog):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert await run(NameServerConfig(listen=f"127.0.0.1:{port}")) == 1
    (record,) = [record for record in caplog.records if record.name == "regent.nameserver"]
    assert record.getMessage().startswith(f"cannot listen on 127.0.0.1:{port}: ")


@pytest.mark.processes
async def test_the_process_serves_until_sigterm_and_ends_with_0():
    port = free_port()
    program = (
        "import asyncio, sys; from processors.nameserver.config import NameServerConfig; "
        "from processors.nameserver.process import run; "
        f"sys.exit(asyncio.run(run(NameServerConfig(listen='127.0.0.1:{port}'))))"
    )
    root = Path(__file__).parents[4]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=root)
    caller = Caller(f"127.0.0.1:{port}")
    try:

        async def ready():
            assert process.returncode is None
            try:
                return (await caller.body(RequestCode.REGENT_PROCESS_STATUS))["ready"]
            except RemotingError:
                return False

        await until(ready)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WAIT_S):
            assert await process.wait() == 0
    finally:
        await caller.client.close()
        if process.returncode is None:
            process.kill()
            await process.wait()
