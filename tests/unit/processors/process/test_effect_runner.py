"""Effects reach the outside, and their answers come back (the log's part: tests/integration)."""

import logging
from pathlib import Path

import pytest

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


class Broker:
    """A broker that answers every call with 0, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[RemotingCommand] = []
        self._server = RemotingServer(self._handle)

    def _handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.got.append(request)
        return None if request.is_oneway else request.reply(0, {"masterHaAddress": "b2:10912"})

    async def start(self) -> str:
        await self._server.start()
        return f"127.0.0.1:{self._server.port}"

    async def close(self) -> None:
        await self._server.close()


async def test_a_role_notice_is_delivered(tmp_path: Path) -> None:
    broker = Broker()
    address = await broker.start()
    made, outbound = runner(Rig(), tmp_path, [])
    made.perform([fx.NotifyRole(address, RemotingCommand.request(1008, oneway=True))])
    await until(lambda: broker.got, "the notice came")
    await outbound.close()
    await broker.close()


@pytest.mark.parametrize("answers", [True, False])
async def test_what_a_broker_was_asked_comes_back_to_the_core(
    tmp_path: Path, answers: bool
) -> None:
    broker = Broker()
    address = await broker.start() if answers else f"127.0.0.1:{free_port()}"
    rig = Rig()
    made, outbound = runner(rig, tmp_path, [])
    back: list[tuple[int, str | None]] = []

    def came(token: int, answer: RemotingCommand | None, now_ms: int) -> list[fx.Effect]:
        back.append((token, None if answer is None else answer.ext["masterHaAddress"]))
        return []

    rig.core.on_broker_answer = came  # type: ignore[method-assign]
    made.perform([fx.AskBroker(7, address, RemotingCommand.request(906), 20_000)])
    await until(lambda: back, "the core knows what came of it")
    assert back == [(7, "b2:10912" if answers else None)]
    await outbound.close()
    await broker.close()


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
