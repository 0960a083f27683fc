"""The disk of a slave that acts is full: what is due goes on to leave, clients are served, and what
could not be kept is kept when there is room again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from infra.features.pop_requests import ack_request, gotten, pop_request
from tests.integration.test_acting_escape import Sets, bodies, delayed
from tests.support.brokers import call, send_request, until
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.timers import timed

POPPED = "P"


class Nobody:
    """A connection of a client that waits."""

    id, closed = 1, False


NOBODY: Connection = Nobody()  # type: ignore[assignment]


@pytest.fixture
async def full(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> AsyncIterator[tuple[Sets, SmallDisk]]:
    """Two sets; the slave of the first one has a disk of its own."""
    with small_disk(tmp_path / "a1", 64 << 20) as disk:
        made = Sets(tmp_path, name_server)
        await made.start(client)
        yield made, disk
        await made.stop()


def commit(queue_id: int, offset: int) -> RemotingCommand:
    fields = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": str(queue_id),
        "commitOffset": str(offset),
    }
    return RemotingCommand.request(15, fields)


async def asked(slave: BrokerProcess, request: RemotingCommand) -> RemotingCommand:
    """As a slave that acts serves it."""
    answer = slave.service.served[request.code].handler(NOBODY, request)
    found = answer if answer is None or isinstance(answer, RemotingCommand) else await answer
    assert found is not None
    return found


async def test_everything_goes_on_and_is_kept_when_there_is_room_again(
    full: tuple[Sets, SmallDisk], client: RemotingClient, tmp_path: Path
) -> None:
    """A level, a time, pops and a commit, all while the disk takes nothing."""
    sets, disk = full
    levels = [b"L%02d" % number for number in range(20)]
    due_ms = int(time.time() * 1000) + 15_000
    answer = await call(client, sets.master, timed(b"timed", {"TIMER_DELIVER_MS": due_ms}))
    assert answer.code == 0, answer.remark
    for number in range(3):
        assert (await call(client, sets.master, send_request(POPPED, b"%d" % number, 0))).code == 0
    assert (await call(client, sets.other, send_request(POPPED, b"there", 0))).code == 0
    sets.master.service.ensure_groups(["g"])
    await until(lambda: sets.slave.tables.groups.get("g") is not None, "the slave knows the group")
    for body in levels:
        assert (await call(client, sets.master, delayed(body, 3))).code == 0
    await sets.copied()
    # What is not in the wheel yet waits for room.
    await until(lambda: not sets.slave.service.timers.behind, "the slave's wheel has the timer")
    disk.fill()
    await sets.master_goes_away()
    slave = sets.slave
    # On a slow machine the master has delivered some itself.
    await until(
        lambda: [*levels, b"timed"] == sorted(bodies(sets.other) + bodies(slave)),
        "all that was due has left",
    )

    popped = gotten(await asked(slave, pop_request(POPPED, queueId=0)), "a")
    assert len(popped) == 3
    for one in popped:
        assert (await asked(slave, ack_request(one.handle, POPPED))).code == 0
    assert (await asked(slave, commit(0, 1))).code == 0
    assert slave.tables.offsets.query("g", "T", 0) == 1
    kept, table = slave.tables.kept, tmp_path / "a1" / "config" / "consumerOffset.json"
    assert kept.unsaved, "there is no room for places"

    disk.free()
    await until(lambda: not kept.unsaved, "the places of levels and timers are on the disk")
    await until(lambda: table.exists() and "T@g" in table.read_text(), "so is the commit")
