"""The status of a broker from its start on."""

from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from tests.support.brokers import broker_config, start_broker, until
from tests.support.scripted_controller import ScriptedController


async def test_a_broker_is_ready_once_it_has_a_role(tmp_path: Path) -> None:
    controller = ScriptedController()
    await controller.start()
    broker = BrokerProcess(broker_config(tmp_path, [controller.address]))
    status = broker.status()
    assert (
        not status.ready
        and status.role == "FENCED"
        and status.broker_id is None
        and status.write_refusal
    )
    await broker.stop("test")
    broker = await start_broker(broker.config)
    await until(lambda: broker.status().ready, "the broker is ready")
    status = broker.status()
    assert (status.role, status.role_id, status.sync_state_set, status.master_epoch) == (
        "MASTER",
        0,
        (1,),
        1,
    )
    assert status.ack_mode == "all-ack" and status.to_json()["ack_mode"] == "all-ack"
    assert status.store_refusal is None and (
        status.records_damaged,
        status.records_refused,
        status.records_repaired,
    ) == (0, 0, 0)
    assert (status.slots_taken, status.queue_ends_behind, status.start_passed_over) == (0, 0, 0)
    broker.store.full = "planted"
    assert broker.status().store_refusal == "planted"
    assert (
        status.epochs == ((1, 0),)
        and status.controller == controller.address
        and status.write_refusal is None
    )
    await broker.stop("test")
    await controller.close()


async def test_a_mode_that_may_lose_is_named_so_in_the_status_and_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = ScriptedController()
    await controller.start()
    config = broker_config(
        tmp_path,
        [controller.address],
        all_ack=False,
        in_sync_replicas=1,
        auto_in_sync_replicas=True,
    )
    broker = await start_broker(config)
    await until(lambda: broker.status().ready, "the broker is ready")
    assert broker.status().ack_mode == "asynchronous (may lose)"
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("may lose" in text for text in warned) and any(
        ("auto_in_sync_replicas has no effect") in text for text in warned
    )
    await broker.stop("test")
    await controller.close()
