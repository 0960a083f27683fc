"""Assignments and modes through requests."""

from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.popping.assignment_service import ROUTE_KEPT_MS
from tests.support.brokers import send_request
from tests.support.client_service import Desk


def query(**changes: object) -> RemotingCommand:
    fields = {
        "clientId": "c1",
        "consumerGroup": "g",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "T",
    }
    return RemotingCommand.request(400, {}, fastjson.dumps({**fields, **changes}))


def mode(name: str, share: int = 0, topic: str = "T", group: str = "g") -> RemotingCommand:
    fields = {"consumerGroup": group, "mode": name, "popShareQueueNum": share, "topic": topic}
    return RemotingCommand.request(401, {}, fastjson.dumps(fields))


async def opened(desk: Desk) -> None:
    desk.lead()
    await desk.ask(send_request("T", b"x"))
    beat = {
        "clientID": "c1",
        "consumerDataSet": [
            {
                "groupName": "g",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [{"topic": "T", "subString": "*", "subVersion": 1}],
            }
        ],
        "producerDataSet": [],
    }
    answer = await desk.ask(RemotingCommand.request(34, {}, fastjson.dumps(beat)))
    assert answer.code == 0


async def test_79_a_member_pulls_until_its_group_is_told_to_pop(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        pulled = fastjson.loads((await desk.ask(query())).body)
        assert isinstance(pulled, dict)
        listed = pulled["messageQueueAssignments"]
        assert [each["messageQueue"]["queueId"] for each in listed] == [0, 1, 2, 3]
        assert (await desk.ask(mode("POP"))).code == 0
        popped = (await desk.ask(query())).body
        assert popped == (
            b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":-1,'
            b'"topic":"T"},"mode":"POP"}]}'
        )
        assert (await desk.ask(query(clientId="x"))).body == b'{"messageQueueAssignments":[]}'
        assert (await desk.ask(query(topic="nobody"))).body == b"{}"
        assert (await desk.ask(RemotingCommand.request(400, {}, b"?"))).code == 1
    assert b'"popShareQueueNum":0' in (tmp_path / "config" / "messageRequestMode.json").read_bytes()
    async with Desk(tmp_path) as desk:
        await opened(desk)
        assert (await desk.ask(query())).body == popped
        asked = fastjson.loads((await desk.ask(RemotingCommand.request(402))).body)
        assert isinstance(asked, dict) and "g" in asked["messageRequestModeMap"]["T"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (mode("POP", topic="%RETRY%g"), 16),
        (mode("POP", topic="nobody"), 17),
        (mode("OTHER"), 1),
        (mode("POP", group="a b"), 26),
        (RemotingCommand.request(401), 1),
    ],
)
async def test_modes_that_cannot_be_are_refused(
    tmp_path: Path, request_: RemotingCommand, code: int
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        assert (await desk.ask(request_)).code == code


async def test_routes_are_asked_for_once_in_a_while_and_kept_when_nobody_answers(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        service = desk.service.popping.assignments
        asked, known = [], {"b": 1, "b2": 1}

        async def route(topic: str) -> dict[str, int] | None:
            asked.append(topic)
            return known if len(asked) == 1 else None

        service._routes = route
        body = (await desk.ask(query())).body
        assert body.count(b'"queueId":0') == 2 and (await desk.ask(query())).body == body
        assert asked == ["T"]
        real = type(desk.clock).now_ms
        desk.clock.now_ms = lambda: real(desk.clock) + ROUTE_KEPT_MS  # type: ignore[method-assign]
        assert (await desk.ask(query())).body == body and asked == ["T", "T"]
