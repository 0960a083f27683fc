import asyncio
import json
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


async def test_a_broker_with_an_id_has_come_far_enough_though_it_is_not_ready() -> None:
    answers: list[dict[str, object]] = [{"ready": False}, {"ready": False, "broker_id": 1}]
    dispatcher = Dispatcher(
        {
            RequestCode.REGENT_PROCESS_STATUS: lambda connection, request: request.reply(
                body=fastjson.dumps(answers.pop(0))
            )
        }
    )
    server = RemotingServer(dispatcher, host="127.0.0.1", port=0)
    await server.start()
    spec = ProcessSpec("b", "broker", {}, (), f"127.0.0.1:{server.port}")
    assert [await asyncio.to_thread(readiness.has_place, spec) for _ in range(2)] == [False, True]
    await server.close()


def test_the_master_of_a_set_without_controllers_is_awaited_until_it_serves() -> None:
    spec = ProcessSpec("a-0", "broker", {"broker_id": 0}, (), "127.0.0.1:1")
    assert not readiness.has_place(spec)
