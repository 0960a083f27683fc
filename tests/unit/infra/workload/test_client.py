import pytest

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from infra.workload.client import CallFailed, WorkloadClient, decode_route, decode_routes

ROUTE = {
    "brokerDatas": [{"brokerAddrs": {"0": "h:1", "2": "h:2"}, "brokerName": "b", "cluster": "c"}],
    "queueDatas": [{"brokerName": "b", "writeQueueNums": 4, "readQueueNums": 4, "perm": 6}],
}


def test_a_route_names_the_master_by_id_0() -> None:
    route = decode_route(fastjson.dumps(ROUTE))
    assert route is not None and (route.master, route.queues, route.addresses[2]) == (
        "h:1",
        4,
        "h:2",
    )
    assert decode_route(b"{}") is None


def test_javas_unquoted_ids_are_read_too() -> None:
    body = b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b"}],"queueDatas":[]}'
    route = decode_route(body)
    assert route is not None and route.master == "h:1"


class OneNode:
    """Name server and broker on one socket."""

    def __init__(self) -> None:
        self.sends: list[RemotingCommand] = []
        self.code = 0
        self.address = ""
        self.server = RemotingServer(
            Dispatcher(
                {
                    RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
                    RequestCode.SEND_MESSAGE_V2: self.send,
                }
            ),
            host="127.0.0.1",
            port=0,
        )

    async def start(self) -> None:
        await self.server.start()
        self.address = f"127.0.0.1:{self.server.port}"

    def route(self, connection: object, request: RemotingCommand) -> RemotingCommand:
        if request.ext["topic"] != "TBW102":
            return request.reply(17)
        found = {**ROUTE, "brokerDatas": [{"brokerAddrs": {"0": self.address}, "brokerName": "b"}]}
        return request.reply(body=fastjson.dumps(found))

    def send(self, connection: object, request: RemotingCommand) -> RemotingCommand:
        self.sends.append(request)
        return request.reply(
            self.code, {"queueId": request.ext["e"], "queueOffset": "7", "msgId": "M"}, remark="r"
        )


async def test_a_new_topic_is_sent_over_the_default_topics_route() -> None:
    node = OneNode()
    await node.start()
    async with WorkloadClient([node.address], "new", "g", timeout_ms=30_000) as client:
        stored = await client.send("5", b"body", 3)
        await node.server.close()
    assert (stored.queue, stored.queue_offset, stored.address) == (3, 7, node.address)
    assert (
        node.sends[0].ext["b"] == "new"
        and "KEYS\x015\x02" in node.sends[0].ext["i"]
        and node.sends[0].body == b"body"
    )


async def test_anything_but_code_0_is_a_failed_call() -> None:
    node = OneNode()
    node.code = 11
    await node.start()
    async with WorkloadClient([node.address], "t", "g", timeout_ms=30_000) as client:
        with pytest.raises(CallFailed, match="code 11"):
            await client.send("1", b"x", 0)
        await node.server.close()


async def test_nobody_there_is_a_failed_call_and_no_route_too() -> None:
    async with WorkloadClient(["127.0.0.1:1"], "t", "g", timeout_ms=200) as client:
        with pytest.raises(CallFailed, match="names no master"):
            await client.send("1", b"x", 0)
        with pytest.raises(CallFailed):
            await client.call("127.0.0.1:1", RemotingCommand.request(34))


def test_a_route_of_several_sets_names_each_and_what_is_allowed_there() -> None:
    body = {
        "brokerDatas": [
            {"brokerName": "a", "brokerAddrs": {"0": "h:2"}},
            {"brokerName": "b", "brokerAddrs": {"0": "h:3", "1": "h:4"}},
        ],
        "queueDatas": [
            {"brokerName": "a", "writeQueueNums": 4, "perm": 4},
            {"brokerName": "b", "writeQueueNums": 8, "perm": 6},
        ],
    }
    found = decode_routes(fastjson.dumps(body))
    assert [(one.broker_name, one.master, one.is_writable, one.queues) for one in found] == [
        ("a", "h:2", False, 4),
        ("b", "h:3", True, 8),
    ]
