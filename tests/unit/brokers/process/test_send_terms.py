"""The send service of a broker, as its configuration wants it."""

from __future__ import annotations

from pathlib import Path

from brokers.process.replica import LocalReplica
from brokers.process.send_terms import send_terms
from brokers.store.log.records import host_bytes
from tests.support.brokers import broker_config


async def test_messages_carry_the_address_behind_an_advertised_name(tmp_path: Path) -> None:
    config = broker_config(tmp_path, ["127.0.0.1:1"], advertise="localhost:10911")
    replica = LocalReplica(config)
    assert send_terms(config, replica).store_host == host_bytes("127.0.0.1", 10911)
    replica.close()
