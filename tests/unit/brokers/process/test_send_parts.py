"""The send service of a broker, as its configuration wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.process.replica import LocalReplica
from brokers.process.send_parts import make_sends
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles
from brokers.store.log.records import host_bytes
from tests.support.brokers import broker_config


async def test_messages_carry_the_address_behind_an_advertised_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []
    monkeypatch.setattr(
        "brokers.process.send_parts.SendService", lambda *_, **settings: made.append(settings)
    )
    config = broker_config(tmp_path, ["127.0.0.1:1"], advertise="localhost:10911")
    replica = LocalReplica(config)
    make_sends(config, replica, TableFiles(tmp_path), RoleView(), Clock(), create_topic="wired")
    assert [(one["store_host"], one["create_topic"]) for one in made] == [
        (host_bytes("127.0.0.1", 10911), "wired")
    ]
    replica.close()
