"""Serving what is kept for Java."""

import struct
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import send_request
from tests.support.client_service import Desk


async def test_every_replica_answers_its_slaves_questions_with_a_table(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().tables.kept.adopt(45, b'{"offsetTable":{3:9}}')
        answers = {code: await desk.ask(RemotingCommand.request(code)) for code in (45, 402, 61)}
        assert {answer.code for answer in answers.values()} == {0}
        assert fastjson.loads(answers[45].body) == {"offsetTable": {"3": 9}}
        assert fastjson.loads(answers[402].body) == {"messageRequestModeMap": {}}
        assert fastjson.loads(answers[61].body) == {
            "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
            "timingCount": {},
        }


async def test_the_timer_check_point_begins_at_the_logs_first_message(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        empty = struct.unpack(">7q", (await desk.lead().ask(RemotingCommand.request(60))).body)
        now_ms = desk.clock.wall_ms()
        assert empty[0] % 1_000 == 0 and abs(now_ms - empty[0]) < 60_000 and not any(empty[1:])
        await desk.ask(send_request("T", b"x"))
        stored_ms = desk.store.log.store_ms_at(0) or 0
        assert (
            struct.unpack(">7q", (await desk.ask(RemotingCommand.request(60))).body)[0]
            == stored_ms // 1_000 * 1_000
        )
