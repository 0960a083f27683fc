"""A master without controllers is killed and comes back, in processes of its own: what brokers and
the name server report of it lands, and is explained (PROTOCOL 7.6).

The log is librdkafka's own; real Kafka and Spark stand in other tests.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from brokers.remoting.client import RemotingClient
from lakehouse.answers.explain import explain
from lakehouse.answers.explain_text import explain_text
from lakehouse.gold.specs import ACTING_PERIODS
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.integration.test_acting_deliveries import Stage, delayed
from tests.support.acting_set import BROKER_SET, eventually
from tests.support.landed_topics import land_records, whole_topics
from tests.support.made_gold import bring_up, job_of, rows_of
from tests.support.mock_kafka import mock_kafka

DUE_IN_5_S, COUNT, READ = 2, 5, 4


async def one_acting_period(folder: Path, kafka: dict[str, str], client: RemotingClient) -> None:
    """The master is killed with delayed messages waiting, and starts again."""
    listen = NameServerConfig(listen="127.0.0.1:0", scan_interval_ms=100, kafka=kafka)
    server = NameServer(listen)
    await server.start()
    stage = Stage(folder, f"127.0.0.1:{server.port}", client)
    for one in stage.brokers:
        with one.config.open("a") as config:
            config.write(f'[kafka]\n"bootstrap.servers" = "{kafka["bootstrap.servers"]}"\n')
    try:
        await stage.start()
        for number in range(COUNT):
            await stage.ask(stage.master, delayed(b"%d" % number, DUE_IN_5_S))
        await eventually(stage.copied, "the slave has all")
        await stage.master.end()

        async def acts() -> bool:
            return await stage.view.leads("T") == (stage.slave.address, READ)

        async def delivered() -> bool:
            return (await stage.there(stage.elsewhere)).total() == COUNT

        async def over() -> bool:
            return bool(stage.slave.said("ActingOver"))

        await eventually(acts, "the slave acts")
        await eventually(delivered, "what was due is at the other set")
        await stage.master.start()
        await eventually(over, "the slave acts no more")
        await eventually(stage.is_whole, "the set is whole")
        # In an orderly way, so that what they tell leaves with them; without the slave none acts.
        for one in (stage.slave, stage.master, stage.elsewhere):
            await one.end(signal.SIGTERM)
    finally:
        for one in stage.brokers:
            await one.end()
        await server.close()


async def test_an_acting_period_of_real_processes_lands_and_is_explained(
    tmp_path: Path, client: RemotingClient
) -> None:
    with mock_kafka() as kafka:
        await one_acting_period(tmp_path, kafka, client)
        records = await asyncio.to_thread(whole_topics, kafka["bootstrap.servers"])
    lake = land_records(tmp_path / "lake", records, "fixed")
    model = explain(lake, BROKER_SET)
    assert model["without_controllers"] and len(model["acting_periods"]) == 1
    [period] = model["acting_periods"]
    assert period["broker_id"] == 1 and period["until_ms"] > period["since_ms"]
    assert period["why_begun"].startswith("broker 0 left: its connection closed (name server ")
    assert period["why_over"].startswith("the master is back")
    assert period["master_left_ms"] <= period["since_ms"] + 2_000
    assert period["master_back_ms"] is not None
    [escaped] = period["escaped"]
    assert (escaped["kind"], escaped["to_broker_name"]) == ("delay level", "other-set")
    assert escaped["messages"] == COUNT == period["messages"]
    [route] = period["routes"]
    assert route["reason"] == "a master registered"
    text = explain_text(model)
    assert "the master took over what was done meanwhile, and is online" in text
    bring_up(job_of(lake))
    rows = rows_of(lake)[ACTING_PERIODS.name]
    assert [row["messages"] for row in rows] == [COUNT]
