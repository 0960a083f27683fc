"""The first master behind a changeover that was cut off, and a slave that acted meanwhile: whole
brokers; the controller's part is scripted.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.changeover.order import Kind, Lines, Order, Record
from brokers.process.broker import BrokerProcess
from brokers.process.changeover.change_over import PlaceChanged
from brokers.process.changeover.folder import read_cut_off, read_record, write_cut_off, write_record
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.table_files import TableFiles
from tests.support.brokers import broker_config, call, start_broker, until
from tests.support.scripted_controller import ScriptedController

COMMITTED, DELIVERED, LEVEL = 3, 7, "2"
ACTED = DataVersion(0, 1, 1 << 20)
TIMED_MS = 90_000


class Pair:
    """Of what was a master and its slave, each a folder until it is begun."""

    def __init__(self, folder: Path, name_server: str, controller: ScriptedController) -> None:
        acts = {"enable_slave_acting_master": True, "total_replicas": 2}
        self.slave_config = broker_config(folder / "s", [], [name_server], broker_id=1, **acts)
        self.master_config = broker_config(folder / "m", [controller.address], [name_server])
        self.controller = controller
        self.running: list[BrokerProcess] = []

    async def slave_acted(self) -> None:
        """As it has been the smallest of its set, on its disk."""
        tables = TableFiles(self.slave_config.store_dir)
        tables.offsets.commit("g", "T", 0, COMMITTED, 1)
        tables.offsets.version = ACTED
        tables.kept.delays.take({LEVEL: DELIVERED}, ACTED)
        tables.kept.timer_check_point.value = (TIMED_MS, 0, 0, 9, 0, 1, 1 << 20)
        await tables.offsets_saved()
        tables.kept.save()

    def orders(self, kind: Kind) -> tuple[Order, ...]:
        leader = self.master_config.advertised
        adopts = kind is Kind.CONTROLLERS
        controllers = (self.controller.address,) if adopts else ()
        addresses = (leader, self.slave_config.advertised)
        return tuple(
            Order(
                *("c1", kind, "regent", "broker-a", address, leader, number + adopts, 1),
                *(controllers, "code" if adopts else "", int(adopts)),
            )
            for number, address in enumerate(addresses)
        )

    def cut_off(self, kind: Kind) -> None:
        """What its death left on the master's disk."""
        folder = self.master_config.store_dir
        folder.mkdir(parents=True, exist_ok=True)
        orders = self.orders(kind)
        if kind is Kind.FIXED:
            write_cut_off(folder, orders)
        else:
            write_record(folder, Record(orders[0], Lines(0), True, orders, acts=True))
        tables = TableFiles(folder)
        epoch = int(kind is Kind.FIXED)  # that of its last mastership
        tables.kept.timer_check_point.value = (TIMED_MS // 2, 0, 0, 5, epoch, 1, 7)
        tables.kept.save()

    async def begin(self, config: BrokerConfig) -> BrokerProcess:
        broker = await start_broker(config)
        self.running.append(broker)
        return broker


@pytest.fixture
async def pair(tmp_path: Path, name_server: str) -> AsyncIterator[Pair]:
    controller = ScriptedController()
    await controller.start()
    controller.epoch = controller.set_epoch = 1
    made = Pair(tmp_path, name_server, controller)
    await made.slave_acted()
    yield made
    for broker in reversed(made.running):
        await broker.stop("test")
    await controller.close()


def places(broker: BrokerProcess) -> tuple[int | None, object, int]:
    tables, kept = broker.tables, broker.tables.kept
    committed = tables.offsets.query("g", "T", 0)
    return committed, kept.delays.table.get(LEVEL), kept.timer_check_point.offset


@pytest.mark.parametrize("kind", list(Kind))
async def test_it_leads_with_the_places_of_the_slave(pair: Pair, kind: Kind) -> None:
    slave = await pair.begin(pair.slave_config)
    pair.cut_off(kind)
    master = await pair.begin(pair.master_config)
    await until(lambda: master.roles.serving, "it leads")
    assert places(master) == (COMMITTED, DELIVERED, 9)
    if kind is Kind.FIXED:
        assert read_cut_off(pair.master_config.store_dir), "somebody has left still"
        return
    folder = pair.slave_config.store_dir
    await until(lambda: read_record(folder) is not None, "the slave is told by the master itself")
    record = read_record(folder)
    assert record is not None and not record.in_order, "it may have acted"
    with pytest.raises(PlaceChanged):
        await slave.change_over.over()


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_slave_that_is_down_meanwhile_is_waited_for(pair: Pair, kind: Kind) -> None:
    pair.cut_off(kind)
    master = await pair.begin(pair.master_config)
    await until(lambda: master.switch.is_held(), "it is elected, and waits")
    assert not master.roles.serving and master.switch.route_entry() is None
    await pair.begin(pair.slave_config)
    await until(lambda: master.roles.serving, "it leads")
    assert places(master) == (COMMITTED, DELIVERED, 9)


async def test_a_master_whose_others_followed_in_order_waits_for_nobody(pair: Pair) -> None:
    pair.cut_off(Kind.CONTROLLERS)
    folder = pair.master_config.store_dir
    orders = pair.orders(Kind.CONTROLLERS)
    write_record(folder, Record(orders[0], Lines(0), True, orders, in_order=True, acts=True))
    master = await pair.begin(pair.master_config)
    await until(lambda: master.roles.serving, "it leads")
    assert master.take_over.left_out == (pair.slave_config.advertised,)


async def test_the_note_of_a_release_goes_when_nobody_has_left(pair: Pair) -> None:
    """The one that had left was adopted again, or began anew among the controllers."""
    pair.cut_off(Kind.FIXED)
    follower = pair.slave_config.model_copy(
        update={"broker_id": None, "controllers": [pair.controller.address]}
    )
    master = await pair.begin(pair.master_config)
    await until(lambda: master.switch.is_held(), "it is elected first")
    await pair.begin(follower)
    await until(lambda: master.roles.serving, "it leads")
    assert not read_cut_off(pair.master_config.store_dir)


async def test_nobody_leaves_controllers_where_no_name_server_answers(
    pair: Pair, client: RemotingClient
) -> None:
    """Nobody would find the master without them."""
    nowhere = pair.master_config.model_copy(update={"name_servers": ["127.0.0.1:1"]})
    master = await pair.begin(nowhere)
    await until(lambda: master.roles.serving, "it leads")
    body = fastjson.dumps([pair.orders(Kind.FIXED)[0].document()])
    answer = await call(client, master, RemotingCommand.request(19018, {"word": "begin"}, body))
    assert answer.code == 1 and "no name server answers" in str(answer.remark)
    assert read_record(nowhere.store_dir) is None and not read_cut_off(nowhere.store_dir)
    assert master.roles.serving and not master.roles.draining


async def test_a_slave_that_acts_is_told_to_hold_back_before_its_places_are_taken(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="regent.broker.acting")
    slave = await pair.begin(pair.slave_config.model_copy(update={"store_dir": tmp_path / "new"}))
    await until(lambda: slave.roles.acting, "nobody else is there: it acts")
    tables = slave.tables
    tables.offsets.commit("g", "T", 0, COMMITTED, 1)
    tables.kept.delays.take({LEVEL: DELIVERED}, tables.kept.delays.version)
    tables.kept.timer_check_point.value = (TIMED_MS, 0, 0, 9, 0, 1, 1 << 20)
    pair.cut_off(Kind.FIXED)
    master = await pair.begin(pair.master_config)
    await until(lambda: master.roles.serving, "it leads")
    assert places(master) == (COMMITTED, DELIVERED, 9)
    assert "special services off: another one delivers" in caplog.text
