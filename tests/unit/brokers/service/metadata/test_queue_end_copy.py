"""Queues whose messages have all expired go on where they were, whoever leads next."""

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from brokers.service.tables.topics import TopicConfig
from brokers.store.queues.queue_ends import QueueEnd, QueueEnds, Remembered, encode
from brokers.store.trimming import trim
from tests.support.client_service import Desk
from tests.unit.brokers.store.log_samples import NOW_MS, message


def fill_until_expired(desk: Desk, count: int = 5) -> None:
    """`count` messages in queue 0 of Idle, of which the log keeps none."""
    store = desk.store
    for _ in range(count):
        store.put(message("Idle"), NOW_MS)
    while len(store.log.file_starts) < 3:
        store.put(message("Busy", body=bytes(200_000)), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    trim(store.log, store.queues, store.log.file_starts[1], store.remembered_offset)()
    assert store.queue_bounds("Idle", 0) == (count, count) and store.log_min > 0


def copy_log(source: Desk, target: Desk) -> None:
    at = target.store.log_end if target.store.log.file_starts else source.store.log_min
    while at < source.store.log_end:
        data = source.store.read_log(at, 1 << 20)
        target.store.append_raw(at, data)
        at += len(data)
    target.store.dispatch_to(target.store.log_end)


async def test_a_replica_that_copied_only_what_is_left_goes_on_behind_what_expired(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        fill_until_expired(master)
        master.lead()
        slave.follow(master.address)
        copy_log(master, slave)
        assert slave.store.queue_bounds("Idle", 0) == (0, 0)
        assert "not on its disk yet" in str(await slave.shared.copy_whole(master.address, 1))
        slave.store.checkpoint()
        assert await slave.shared.copy_whole(master.address, 1) is None
        slave.lead(2)
        master.follow(slave.address, 2)
        assert slave.store.put(message("Idle"), NOW_MS).queue_offset == 5
        copy_log(slave, master)
        assert [desk.store.queue_bounds("Idle", 0) for desk in (master, slave)] == [(5, 6), (5, 5)]
        slave.store.truncate(0)  # it is cut to its begin and copies everything anew
        slave.follow(master.address, 3)
        copy_log(master, slave)
        assert slave.store.queue_bounds("Idle", 0) == (5, 6)


async def test_it_stays_so_through_a_restart(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        fill_until_expired(master)
        master.lead()
        slave.follow(master.address)
        copy_log(master, slave)
        await slave.shared.sync.copy_from(master.address, 1)
        slave.store.checkpoint()
    assert QueueEnds(tmp_path / "s").ends == {("Idle", 0): (5, -1)} | {
        ("Busy", 0): slave_end(tmp_path)
    }
    async with Desk(tmp_path / "s") as slave:
        slave.lead(2)
        assert slave.store.put(message("Idle"), NOW_MS).queue_offset == 5


def slave_end(tmp_path: Path) -> object:
    ends = QueueEnds(tmp_path / "m").ends
    assert ends is not None
    return ends[("Busy", 0)]


async def test_what_consumers_have_read_tells_where_no_master_did(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.tables.topics.put([TopicConfig("Idle", 1, 1), TopicConfig("Busy", 1, 1)], 1)
        desk.tables.offsets.commit("g", "Idle", 0, 5, 1)
        desk.tables.offsets.commit("g", "Idle", 1, 9, 1)
        desk.tables.offsets.commit("g", "Gone", 0, 9, 1)
        desk.tables.offsets.commit("h", "Idle", 0, 3, 1)
        desk.tables.offsets.commit("g", "Busy", 0, 77, 1)
        desk.store.put(message("Busy"), NOW_MS)
        desk.store.dispatch_to(desk.store.log_end)
        desk.lead()
        assert [
            desk.store.put(message(topic), NOW_MS).queue_offset for topic in ("Idle", "Busy")
        ] == [5, 1]
        assert sorted(desk.store.queue_ids()) == [("Busy", 0), ("Idle", 0)]


async def test_a_master_that_begins_again_at_the_front_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Desk(tmp_path) as slave:
        slave.store.ends.note(slave.store.queues, {("Idle", 0): 5, ("Idle", 1): 2})
        told = encode(Remembered(100, {("Idle", 0): QueueEnd(3, -1), ("Idle", 1): QueueEnd(2, -1)}))
        await slave.shared.ends.adopt(told, 1)
        assert "in front of what was given before: Idle/0 at 3 instead of 5" in caplog.text
        fields = {"queues": 1, "topic": "Idle", "queue_id": 0, "master_slot": 3, "own_slot": 5}
        assert (
            slave.reported == [("QueueEndsBehind", fields)] and slave.service.queue_ends_behind == 1
        )
        assert slave.store.queue_bounds("Idle", 0) == (5, 5)
        with pytest.raises(ValueError, match="cannot be read"):
            await slave.shared.ends.adopt(told[:-1], 1)


async def test_only_a_master_tells_and_the_same_text_only_once(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        fill_until_expired(master)
        question = RemotingCommand.request(19015, {"regentTableFrom": "0", "regentTableDigest": ""})
        master.follow(slave.address)
        assert (await master.ask(question)).code == 14
        master.lead(2)
        slave.follow(master.address, 2)
        assert await slave.shared.sync.copy_from(master.address, 2) is None
        told = slave.shared.ends.text
        assert (await master.ask(question)).body == told
        has_it = RemotingCommand.request(
            19015,
            {
                "regentTableFrom": str(len(told)),
                "regentTableDigest": (await master.ask(question)).ext["regentTableDigest"],
            },
        )
        assert (await master.ask(has_it)).body == b""


@pytest.mark.parametrize(("code", "refused"), [(3, False), (1, True)])
async def test_a_java_master_does_not_know_of_it(tmp_path: Path, code: int, refused: bool) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        answers = master.service.handlers() | {19015: lambda _, request: request.reply(code)}
        server = RemotingServer(Dispatcher(answers))
        await server.start()
        address = f"127.0.0.1:{server.port}"
        slave.follow(address)
        answer = await slave.shared.copy_whole(address, 1)
        assert (answer is not None) is refused and slave.shared.ends.text == b""
        await server.close()
