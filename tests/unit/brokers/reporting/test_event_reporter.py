"""Broker events: encoded, bounded, and never in the way."""

import asyncio

import pytest

from brokers.clock import Clock
from brokers.reporting.event_reporter import EventReporter, producer_settings
from infra.processes.logging import Sparing
from tests.support.brokers import free_port


async def test_without_kafka_nothing_is_produced() -> None:
    reporter = EventReporter(None, "C", "b", "i", Clock())
    reporter.start()
    reporter.report("BrokerStopped", {"reason": "test"})
    await reporter.close()
    assert (reporter.reported, reporter.dropped) == (0, 0)


async def test_a_kafka_that_is_not_there_blocks_nobody_and_losses_are_counted() -> None:
    reporter = EventReporter(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": "0"}, "C", "b", "i", Clock()
    )
    reporter.start()
    for _ in range(11_000):
        reporter.report(
            "SyncStateSetProposed",
            {"members": [1, 2], "base_epoch": 1, "new_epoch": -1, "code": -1},
        )
    assert reporter.reported + reporter.dropped == 11_000 and reporter.dropped >= 1_000
    await reporter.close()
    assert reporter.dropped == 11_000


async def test_what_the_client_says_while_kafka_is_away_is_said_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reporter = EventReporter(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "C", "b", "i", Clock()
    )
    reporter.start()
    said: list = []
    async with asyncio.timeout(60):
        while len(said) < 4:
            await asyncio.sleep(0.05)
            said = [one for one in caplog.records if one.name.startswith("regent.broker.events")]
    await reporter.close()
    sparing = Sparing(lambda: 0.0)
    passed = [one for one in said if sparing.filter(one)]
    assert {one.name for one in said} == {"regent.broker.events.client"}
    assert 0 < len(passed) < len(said)


async def test_a_fact_that_fits_no_schema_is_dropped_and_counted() -> None:
    reporter = EventReporter(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": "0"}, "C", "b", "i", Clock()
    )
    reporter.report("NoSuchEvent", {})
    reporter.report("BrokerStopped", {"wrong": 1})
    assert (reporter.reported, reporter.dropped) == (0, 2)
    await reporter.close()


def test_the_clusters_own_settings_pass_through() -> None:
    settings = producer_settings({"bootstrap.servers": "k:1", "security.protocol": "SSL"})
    assert settings["security.protocol"] == "SSL" and settings["enable.idempotence"] is True
