"""Every request of pop with fields that nobody sends: it is answered, and the connection lives."""

import random
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from infra.features.pop_requests import pop_request
from tests.support.brokers import send_request
from tests.support.client_service import Desk
from tests.support.pops import REVIVE, Wheel, popped

CODES = (200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151, 400, 401)
VALUES = (
    "", "0", "-1", "1", "x", "9" * 19, "-" + "9" * 18, "99999999999999999999", "T", "g",
    "%RETRY%g_T", "a\x01b\x02", "\ud83d\ude00", "0 1 2 3 0 b 0 0", "0 1 2 999 0 b 0 0", " " * 9,
    "true", "é" * 300,
    "0 35184372088832 35184372088832 0 0 b 0 0", "SQL92", "a || b", "*",
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b"\xff\xfe", b'{"acks":[{}]}', b'{"acks":[{"b":"////"}]}', b"[" * 5_000,
    b'{"topic":{},"consumerGroup":[]}', b'{"acks":"x"}', b'{"mode":1}', b"1e999", b"null",
)  # fmt: skip


@pytest.mark.parametrize("code", CODES)
async def test_62_whatever_is_asked_is_answered(tmp_path: Path, code: int) -> None:
    chance = random.Random(code)
    names = [
        *pop_request().ext, "offset", "extraInfo", "attemptId", "clientId",
    ]  # fmt: skip
    async with Desk(tmp_path) as desk:
        desk.lead()
        Wheel(desk)
        await desk.ask(send_request("T", b"x"))
        for _ in range(150):
            ext = {name: chance.choice(VALUES) for name in names if chance.random() < 0.7}
            if chance.random() < 0.5:
                ext |= {"topic": "T", "consumerGroup": "g", "queueId": "0"}
            ext["pollTime"] = "0"
            answer = await desk.ask(RemotingCommand.request(code, ext, chance.choice(BODIES)))
            assert answer.opaque and len(answer.remark or "") < 2_000
        desk.service.popping.revive.tick(desk.clock.now_ms())
        for _ in range(2):
            await desk.ask(send_request("T", b"after", 1))
        assert await popped(desk, group="other", queueId=1)


async def test_84_the_revive_topic_takes_what_a_reviver_can_read(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        end = desk.store.log_end
        for tag, body in (("ck", b"no"), ("ack", b"[]"), ("other", b"{}"), ("", b"{}")):
            answer = await desk.ask(send_request(REVIVE, body, tags=tag))
            assert answer.code == 13 and desk.store.log_end == end
        for tag in ("ck", "ack", "bAck"):
            assert (await desk.ask(send_request(REVIVE, b"{}", tags=tag))).code == 0
