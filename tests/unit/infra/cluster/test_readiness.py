import asyncio
import json
from dataclasses import replace
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from infra.cluster import readiness
from infra.cluster.plan import ClusterPlan, ProcessSpec

PLAN = ClusterPlan((), {"bootstrap.servers": "127.0.0.1:1"}, (), (), 0)


def test_a_landing_job_is_ready_when_its_own_status_says_so(tmp_path: Path) -> None:
    spec = ProcessSpec("land", "land", {"work_dir": str(tmp_path)}, ())
    assert not readiness.is_ready(spec, PLAN, 7)
    (tmp_path / "status.json").write_text(json.dumps({"ready": True, "pid": 6}))
    assert not readiness.is_ready(spec, PLAN, 7), "that was its predecessor"
    (tmp_path / "status.json").write_text(json.dumps({"ready": True, "pid": 7}))
    assert readiness.is_ready(spec, PLAN, 7)


def test_a_process_that_does_not_answer_is_not_ready() -> None:
    assert not readiness.is_ready(ProcessSpec("n", "namesrv", {}, (), "127.0.0.1:1"), PLAN, 1)


async def places_of(spec: ProcessSpec, *answers: dict[str, object]) -> list[bool]:
    """What is said of a broker that gives these answers one after the other."""
    left = list(answers)
    dispatcher = Dispatcher(
        {
            RequestCode.REGENT_PROCESS_STATUS: lambda connection, request: request.reply(
                body=fastjson.dumps(left.pop(0))
            )
        }
    )
    server = RemotingServer(dispatcher, host="127.0.0.1", port=0)
    await server.start()
    asked = replace(spec, address=f"127.0.0.1:{server.port}")
    found = [await asyncio.to_thread(readiness.has_place, asked) for _ in answers]
    await server.close()
    return found


async def test_a_broker_with_an_id_has_come_far_enough_though_it_is_not_ready() -> None:
    spec = ProcessSpec("b", "broker", {}, ())
    told = {"ready": False}, {"ready": False, "broker_id": 1}
    assert await places_of(spec, *told) == [False, True]


async def test_the_master_of_a_set_without_controllers_is_awaited_until_it_serves() -> None:
    spec = ProcessSpec("a-0", "broker", {"broker_id": 0}, (), "127.0.0.1:1")
    assert not readiness.has_place(spec)
    assert await places_of(spec, {"ready": False, "broker_id": 0}) == [False]


async def test_one_that_controllers_adopted_waits_for_the_others_whatever_its_file_says() -> None:
    spec = ProcessSpec("a-0", "broker", {"broker_id": 0}, ())
    assert await places_of(spec, {"ready": False, "broker_id": 1}) == [True]
