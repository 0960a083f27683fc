"""The doctor holds what a name server says against what the controllers decided."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from infra.doctor import routes
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK
from processors.nameserver.records import DataVersion, Registration
from processors.nameserver.routes import RouteTable
from tests.support import remoting_thread
from tests.support.brokers import free_port
from tests.support.controller_document import broker_set, document, replica
from tests.support.pasted import why_not

COMMANDS = Commands(where=("--controller", "h:1"))
DOCUMENT = document(sets={"a": broker_set(replicas=[replica(1), replica(2)])})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(routes, "SETTLE_S", 0.0)
    yield


def table_of(*brokers: tuple[int, str]) -> RouteTable:
    """The name server's own table with these replicas of set a."""
    table = RouteTable()
    for broker_id, address in brokers:
        table.register(
            Registration(
                cluster_name="c",
                broker_name="a",
                broker_id=broker_id,
                address=address,
                ha_address="",
                version=DataVersion(0, 1, 1),
                timeout_ms=60_000,
                acting_master=False,
                topics={},
            ),
            broker_id,
            0,
        )
    return table


@pytest.mark.parametrize(
    ("brokers", "text"),
    [
        (((0, "h:1"), (2, "h:2")), None),
        ((), "has no route to a"),
        (((2, "h:2"),), "knows no master of a, which is at h:1"),
        (((0, "h:2"),), "sends clients of a to h:2, the master is at h:1"),
    ],
)
def test_what_clients_would_not_find_fails(
    brokers: tuple[tuple[int, str], ...], text: str | None
) -> None:
    body = json.dumps(table_of(*brokers).cluster_info()).encode()

    def answer(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=body)

    with remoting_thread.serving(answer) as address:
        (found,) = routes.check([address], DOCUMENT, COMMANDS)
    assert found.verdict == (OK if text is None else FAIL)
    assert text is None or (text in found.text and why_not(found.command) is None)


def test_a_set_without_a_living_master_is_told_elsewhere() -> None:
    dead = broker_set(replicas=[replica(1, alive=False), replica(2)])
    assert routes.differences("n:1", {}, "a", dead, COMMANDS) == []


def test_one_that_is_gone_and_one_that_is_none_fail() -> None:
    (gone,) = routes.check([f"127.0.0.1:{free_port()}"], None, COMMANDS)
    assert gone.verdict == FAIL and "is not reached" in gone.text
    with remoting_thread.serving(lambda _, request: request.reply(3)) as address:
        (other,) = routes.check([address], None, COMMANDS)
    assert other.verdict == FAIL and "that of no name server" in other.text
