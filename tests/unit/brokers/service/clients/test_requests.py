"""Clients as such: heartbeats, lists, notifications."""

from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.service.clients.wanted import Filters
from tests.support.brokers import until
from tests.support.client_service import Desk

REVERSED = (
    "java.lang.RuntimeException: Illegal values of between, left value(5) must less than or equal "
    "to right value(3)"
)


def greeting(
    client_id: str, *groups: str, producers: tuple[str, ...] = (), fingerprint: int = 0
) -> RemotingCommand:
    rows = [
        {"groupName": group, "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
        for group in groups
    ]
    body = {
        "clientID": client_id,
        "consumerDataSet": rows,
        "producerDataSet": [{"groupName": name} for name in producers],
        "heartbeatFingerprint": fingerprint,
    }
    return RemotingCommand.request(34, body=fastjson.dumps(body))


async def test_the_first_heartbeat_makes_group_and_retry_topic_before_it_is_answered(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        answer = await desk.ask(greeting("c", "cg"))
        assert (
            answer.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
            and answer.version >= 401
        )
        assert (
            desk.tables.groups.get("cg") is not None
            and desk.tables.topics.get("%RETRY%cg") is not None
        )
        assert desk.registrations == 1


async def test_a_slave_records_clients_and_leaves_tables_to_its_master(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1")
        assert (await desk.ask(greeting("c", "cg"))).code == 0
        assert (
            desk.service.groups.client_ids("cg") == ["c"] and desk.tables.groups.get("cg") is None
        )


async def test_the_list_of_an_unknown_group_is_an_error_and_an_unregistered_client_leaves_it(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(38, {"consumerGroup": "cg"}))).code == 1
        await desk.ask(greeting("c", "cg", producers=("pg",)))
        listed = await desk.ask(RemotingCommand.request(38, {"consumerGroup": "cg"}))
        assert fastjson.loads(listed.body) == {"consumerIdList": ["c"]}
        await desk.ask(
            RemotingCommand.request(
                35, {"clientID": "c", "consumerGroup": "cg", "producerGroup": "pg"}
            )
        )
        assert (await desk.ask(RemotingCommand.request(38, {"consumerGroup": "cg"}))).code == 1
        assert desk.service.groups.producers == {}


async def test_every_client_of_a_changed_group_is_notified(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []

    def listener(name: str) -> RemotingClient:
        def hear(_connection: object, request: RemotingCommand) -> None:
            heard.append((name, request.ext["consumerGroup"]))

        return RemotingClient(hear)

    first, second = listener("first"), listener("second")
    async with Desk(tmp_path) as desk:
        desk.lead()
        await first.call(desk.address, greeting("a", "cg"), 5_000)
        await second.call(desk.address, greeting("b", "cg"), 5_000)
        await until(
            lambda: heard.count(("first", "cg")) == 2 and heard.count(("second", "cg")) == 1,
            "both were told",
        )
        await second.close()
        await until(lambda: heard.count(("first", "cg")) == 3, "the one that stayed was told")
        await first.close()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clientID":1}'])
async def test_a_body_that_is_no_heartbeat_is_an_error(tmp_path: Path, body: bytes) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(34, body=body))).code == 1


@pytest.mark.parametrize(
    ("served", "kind", "text", "code", "remark"),
    [
        (True, "TAG", "A || B", 0, ""),
        (True, None, "A", 0, ""),
        (True, "SQL92", "a > 1", 0, ""),
        (True, "SQL92", "a BETWEEN 5 AND 3", 23, REVERSED),
        (True, "SQL92", "a = NULL", 23, "java.lang.RuntimeException: 'NULL' cannot be compared."),
        (
            True,
            "SQL92",
            "NOT a > 5",
            23,
            "java.lang.RuntimeException: Value '(NOT a)' cannot be compared.",
        ),
        (
            False,
            "SQL92",
            "a > 1",
            1,
            "The broker does not support consumer to filter message by SQL92",
        ),
        (False, "TAG", "A", 0, ""),
    ],
)
async def test_lines_48_51_53_a_client_may_ask_whether_its_filter_is_served(
    tmp_path: Path, served: bool, kind: str | None, text: str, code: int, remark: str
) -> None:
    async with Desk(tmp_path, filters=Filters(served)) as desk:
        desk.lead()
        subscription = {"topic": "T", "subString": text, "expressionType": kind}
        body = {"clientId": "c", "group": "g", "subscriptionData": subscription}
        answer = await desk.ask(RemotingCommand.request(46, body=fastjson.dumps(body)))
        assert (answer.code, answer.remark or "") == (code, remark)


@pytest.mark.parametrize(
    ("body", "code"), [(b"{}", 0), (b'{"subscriptionData":null}', 0), (b"[1]", 0), (b"{", 1)]
)
async def test_a_client_that_asks_without_a_subscription_is_answered(
    tmp_path: Path, body: bytes, code: int
) -> None:
    async with Desk(tmp_path) as desk:
        assert (await desk.ask(RemotingCommand.request(46, body=body))).code == code
