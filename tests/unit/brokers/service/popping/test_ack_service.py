"""What is answered to acknowledgements, and that 0 promises something."""

import base64
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.popping.ack_service import AckService
from infra.features.pop_requests import ack_request
from tests.support.pops import Stage, popped


@pytest.mark.parametrize("code", [200051, 200053])
async def test_64_acknowledgements_of_what_is_not_there_are_refused(
    tmp_path: Path, code: int
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(2)
        got, _ = await popped(desk)
        for changes, expected in (
            ({"topic": "nobody"}, 17),
            ({"queueId": 9}, 13),
            ({"offset": 3}, 208),
            ({"offset": -1}, 208),
            ({"offset": 2}, 0 if code == 200051 else 208),
            ({"extraInfo": "0 1 2"}, 1),
            ({"extraInfo": "0 1 2 77 0 b 0 0"}, 1),
            ({"extraInfo": "0 1 2 3 0 b\x01 0 0"}, 1),
            ({"consumerGroup": "a\x01b"}, 1),
            ({"offset": "x"}, 1),
        ):
            answer = await desk.ask(ack_request(got.handle, code=code, invisibleTime=5, **changes))
            assert answer.code == expected, (changes, answer.remark)
            if code == 200053:
                assert set(answer.ext) == {"popTime", "invisibleTime", "reviveQid"}


async def test_85_an_acknowledgement_that_is_not_stored_is_not_answered_0(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        assert await desk.code(ack_request(got.handle)) == 1
        assert await desk.code(ack_request(got.handle, code=200053, invisibleTime=9)) == 1


async def test_60_nothing_of_a_batch_that_is_nowhere_is_stored(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        await popped(desk)
        acks: AckService = desk.service.popping.acks
        end = desk.store.log_end
        entry = {"c": "g", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 1, "pt": 7, "it": 9}
        for changes, code in (
            ({"t": "nobody", "b": "Ag=="}, 0),
            ({"b": base64.b64encode(b"\0\0\1").decode()}, 0),
            ({"b": "AQ==", "rq": 99}, 1),
        ):
            body = fastjson.dumps({"acks": [{**entry, **changes}], "brokerName": "b"})
            assert await desk.code(RemotingCommand.request(200151, {}, body)) == code
        assert await desk.code(RemotingCommand.request(200151)) == 208
        assert desk.store.log_end == end and set(acks.serves()) == {200051, 200151, 200053}


async def test_62_what_a_proxy_adds_to_a_handle_does_no_harm(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        text = f"{got.handle.text()} 4711"
        assert await desk.code(ack_request(got.handle, extraInfo=text)) == 0
        await desk.settled(20_000)
        assert await popped(desk) == []
