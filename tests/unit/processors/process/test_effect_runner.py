"""Effects reach the outside, and their answers come back (the log's part: tests/integration)."""

import logging
from pathlib import Path

from brokers.remoting.client import RemotingClient
from brokers.remoting.codec import FRAME_BYTES_MAX
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from processors.controller import effects as fx
from processors.log.controller_log import ControllerLog
from processors.process.effect_runner import EffectRunner, monotonic_ms, monotonic_us, wall_ms
from processors.process.outbound import Outbound
from processors.settings.config import ControllerConfig
from tests.support.brokers import free_port, until
from tests.support.controller_rig import SET, Rig


def runner(rig: Rig, folder: Path, halts: list[str]) -> tuple[EffectRunner, Outbound]:
    config = ControllerConfig.model_validate(
        {"controller_id": "c1", "data_dir": folder, "kafka": {"bootstrap.servers": "127.0.0.1:1"}}
    )
    log = ControllerLog(config, on_record=lambda offset, data: None, on_halt=halts.append)
    outbound = Outbound(lambda address, refused: None)
    return EffectRunner(rig.core, log, outbound, {}, halts.append), outbound


async def test_a_refused_probe_comes_back_to_the_core(tmp_path: Path) -> None:
    rig = Rig(now_ms=monotonic_ms()).lead().three()
    made, outbound = runner(rig, tmp_path, [])
    address = f"127.0.0.1:{free_port()}"
    replica = rig.state.sets[SET].replica(3)
    assert replica is not None
    made.perform([fx.Probe(address)])
    await until(lambda: address in rig.core._context.liveness._refused, "the refusal is known")
    await outbound.close()


async def test_role_notices_are_delivered_when_they_are_due(tmp_path: Path) -> None:
    got: list[RemotingCommand] = []

    def handle(connection: Connection, request: RemotingCommand) -> None:
        got.append(request)

    server = RemotingServer(handle)
    await server.start()
    made, outbound = runner(Rig(), tmp_path, [])
    address = f"127.0.0.1:{server.port}"
    late, soon = (
        RemotingCommand.request(1008, {"when": when}, oneway=True) for when in ("late", "soon")
    )
    made.perform([fx.NotifyRole(address, late, delay_ms=1_000), fx.NotifyRole(address, soon)])
    await until(lambda: len(got) == 2, "both notices came")
    assert [notice.ext["when"] for notice in got] == ["soon", "late"]
    await outbound.close()
    await server.close()


async def test_after_a_halt_nothing_is_performed(tmp_path: Path) -> None:
    halts: list[str] = []
    made, outbound = runner(Rig(), tmp_path, halts)
    made.perform(
        [fx.Note("info", "x"), fx.Reply(1, RemotingCommand(0)), fx.Halt("first"), fx.Halt("second")]
    )
    made.perform([fx.Halt("third")])
    assert halts == ["first"]
    await outbound.close()


async def test_an_answer_is_timed_although_whoever_asked_is_gone(tmp_path: Path) -> None:
    made, outbound = runner(Rig(), tmp_path, [])
    meter = made._meter
    meter.arrived(9, 4711, 1012, monotonic_us())
    response = RemotingCommand.request(1012)
    response.opaque = 4711
    made.perform([fx.Reply(9, response, "timeout")])
    assert meter.metrics.requests == {("CONTROLLER_GET_NEXT_BROKER_ID", "timeout"): 1}
    assert meter.metrics.request_us["CONTROLLER_GET_NEXT_BROKER_ID"].count == 1
    await outbound.close()


def test_both_clocks_count_milliseconds() -> None:
    assert wall_ms() > 1_700_000_000_000 and monotonic_ms() >= 0


async def test_an_answer_that_fits_in_no_frame_is_still_an_answer(tmp_path: Path) -> None:
    connections: dict[int, Connection] = {}
    config = ControllerConfig.model_validate(
        {"controller_id": "c1", "data_dir": tmp_path, "kafka": {"bootstrap.servers": "127.0.0.1:1"}}
    )
    log = ControllerLog(config, on_record=lambda offset, data: None, on_halt=lambda reason: None)
    outbound = Outbound(lambda address, refused: None)
    made = EffectRunner(Rig().core, log, outbound, connections, lambda reason: None)

    def handle(connection: Connection, request: RemotingCommand) -> None:
        connections[connection.id] = connection
        made.perform([fx.Reply(connection.id, request.reply(0, body=bytes(FRAME_BYTES_MAX)))])

    server = RemotingServer(handle)
    await server.start()
    client = RemotingClient()
    answer = await client.call(f"127.0.0.1:{server.port}", RemotingCommand.request(1006), 5_000)
    assert answer.code == 1 and "cannot be sent" in (answer.remark or "")
    await client.close()
    await server.close()
    await outbound.close()


async def test_the_log_level_changes_while_the_process_runs(tmp_path: Path) -> None:
    made, outbound = runner(Rig(), tmp_path, [])
    logger = logging.getLogger("regent.some_test")
    made.perform([fx.SetLogLevel("DEBUG", "regent.some_test")])
    assert logger.level == logging.DEBUG
    logger.setLevel(logging.NOTSET)
    await outbound.close()
