"""A replica that leads knows who greeted the last master, whether or not they have greeted it."""

import asyncio
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.server import Dispatcher, RemotingServer
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

GROUP, TOPIC, CLIENT = "g", "T", "10.0.0.1@7"
PULL = {
    "consumerGroup": GROUP,
    "topic": TOPIC,
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "0",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
}


def greeting(code_set: list[int] | None = None, text: str = "*") -> RemotingCommand:
    subscription = {"topic": TOPIC, "subString": text, "codeSet": code_set or [], "subVersion": 1}
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    body = {"clientID": CLIENT, "consumerDataSet": [consumer], "producerDataSet": []}
    return RemotingCommand.request(RequestCode.HEART_BEAT, body=fastjson.dumps(body))


async def pull_code(desk: Desk) -> int:
    return (await desk.ask(RemotingCommand.request(RequestCode.PULL_MESSAGE, PULL))).code


async def clients(desk: Desk) -> RemotingCommand:
    return await desk.ask(
        RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    )


async def test_a_replica_that_nobody_greeted_serves_its_masters_consumers_once_it_leads(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        assert (await master.ask(greeting())).code == 0
        slave.follow(master.address)
        assert await slave.shared.sync.copy_from(master.address, 1) is None
        assert b"10.0.0.1@7" in (await clients(slave)).body  # also while it is a slave
        slave.lead(2)
        assert (await slave.ask(send_request(TOPIC, b"x"))).code == 0
        await until_readable(slave)
        assert fastjson.loads((await clients(slave)).body) == {"consumerIdList": [CLIENT]}


async def until_readable(desk: Desk) -> None:
    """A pull finds the message; it is refused in no moment before."""
    while (code := await pull_code(desk)) != ResponseCode.SUCCESS:
        assert code == ResponseCode.PULL_NOT_FOUND
        await asyncio.sleep(0.01)


async def test_who_greets_the_master_is_at_the_slave_a_moment_later(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        running = asyncio.ensure_future(slave.shared.sync.run())
        await until(lambda: slave.shared.clients.text != b"", "a first copy came")
        assert (await master.ask(greeting())).code == 0
        await until(
            lambda: slave.service.groups.client_ids(GROUP) == [CLIENT], "the greeting was copied"
        )
        running.cancel()


async def test_only_a_master_tells_and_only_its_replicas_ask(tmp_path: Path) -> None:
    question = RemotingCommand.request(
        RequestCode.REGENT_CLIENTS, {"regentTableFrom": "0", "regentTableDigest": ""}
    )
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(question)).code == ResponseCode.SUCCESS
        desk.believes = False
        assert (await desk.ask(question)).code == ResponseCode.NO_PERMISSION
        desk.believes = True
        desk.follow("127.0.0.1:1")
        assert (await desk.ask(question)).code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_master_that_does_not_know_the_question_is_copied_all_the_same(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        handlers = master.service.handlers()
        del handlers[RequestCode.REGENT_CLIENTS]
        server = RemotingServer(Dispatcher(handlers))
        await server.start()
        address = f"127.0.0.1:{server.port}"
        slave.follow(address)
        assert await slave.shared.sync.copy_from(address, 1) is None
        await server.close()
