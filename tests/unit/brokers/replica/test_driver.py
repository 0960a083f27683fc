"""The shell of a replica on real loopback sockets, with the real store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from brokers.ha.epochs import EpochHistory
from brokers.replica.hooks import AlterResult
from brokers.replica.roles import Role
from brokers.replica.waiters import Confirmation
from brokers.store.files.errors import DiskFull
from brokers.store.trimming import trim
from tests.support.replica_process import CONFIG, FILE_BYTES, ReplicaProcess, elect, until

WAIT_MS = 10_000
Start = Callable[..., ReplicaProcess]


def accepting(effect) -> AlterResult:
    return AlterResult(0, effect.members, effect.base_set_epoch + 1, effect.master_epoch)


@pytest.fixture
async def start(tmp_path) -> AsyncIterator[Start]:
    running: list[ReplicaProcess] = []

    def begin(broker_id: int, **kwargs: object) -> ReplicaProcess:
        process = ReplicaProcess(tmp_path / f"broker-{broker_id}", broker_id, **kwargs)
        running.append(process)
        return process

    yield begin
    for process in running:
        if not process.driver._stopped:
            await process.stop()


async def confirmed(process: ReplicaProcess, end: int) -> None:
    assert await process.driver.wait_confirmed(end, WAIT_MS) is Confirmation.CONFIRMED


async def equal_logs(*processes: ReplicaProcess) -> None:
    first = processes[0]
    await until(
        lambda: all(one.store.log_end == first.store.log_end for one in processes),
        "logs are equally long",
    )
    assert len({one.log_bytes for one in processes}) == 1


async def test_a_message_is_confirmed_when_every_member_holds_it(start: Start) -> None:
    trio = [start(1), start(2), start(3)]
    elect(trio, trio[0], 1, (1, 2, 3))
    end = trio[0].put(50)
    await confirmed(trio[0], end)
    assert [one.store.log_end for one in trio] == [end] * 3
    await equal_logs(*trio)
    await until(lambda: all(one.core.confirm_offset == end for one in trio), "slaves hear of it")
    assert trio[1].store.queue_bounds("T", 0) == (0, 50)


async def test_with_synchronous_flush_a_slave_speaks_only_of_what_is_on_its_disk(
    start: Start,
) -> None:
    asked: list[tuple[int, Callable[[bool], None]]] = []
    disk_is_quick = True

    def flush(end: int, told: Callable[[bool], None]) -> None:
        told(True) if disk_is_quick else asked.append((end, told))

    pair = [start(1), start(2, flush=flush)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(5))
    disk_is_quick = False
    end = pair[0].put(5)
    await until(lambda: asked and pair[1].store.log_end == end, "the slave has written it")
    assert await pair[0].driver.wait_confirmed(end, 50) is Confirmation.TIMED_OUT
    disk_is_quick = True
    for _, told in asked:
        told(True)
    await confirmed(pair[0], end)


async def test_an_empty_replica_copies_files_whole_and_goes_on_live(start: Start) -> None:
    config = replace(CONFIG, min_in_sync_replicas=1)
    master = start(1, config=config, controller=accepting)
    elect([master], master, 1, (1,))
    master.put(2000)  # several files, blank ends included
    assert master.store.log_end > 3 * FILE_BYTES
    late = start(2, config=config)
    elect([late], master, 1, (1,))
    await until(lambda: master.core.sync_state_set == (1, 2), "the late one joins")
    await confirmed(master, master.put(100))
    await equal_logs(master, late)
    assert late.core.epochs == EpochHistory.of((1, 0))
    assert master.reported("SyncStateSetAccepted")[0]["members"] == (1, 2)


async def test_a_lost_link_comes_back_and_copying_goes_on(start: Start) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(10))
    for _ in range(3):
        (link_id,) = pair[1].driver._transport._links
        pair[1].driver._transport._links[link_id]._lost("cut by the test")
        await confirmed(pair[0], pair[0].put(10))
    await equal_logs(*pair)
    assert len(pair[1].reported("HaLinkUp")) == 4
    assert len(pair[1].reported("HaLinkDown")) == 3


async def test_parted_histories_are_cut_to_the_last_common_byte(start: Start) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    common = pair[0].put(20)
    await confirmed(pair[0], common)
    await pair[1].stop()  # the slave is gone; the master writes what nobody else has
    pair[0].put(5, b"only here")
    lonely_end = pair[0].store.log_end
    await pair[0].stop(clean=False)

    second = start(2)
    elect([second], second, 2, (2,), set_epoch=20)
    assert second.core.role is Role.MASTER
    assert second.driver.write_refusal() == "in-sync replicas not enough: 1 of 2"
    first = start(1)
    assert first.store.log_end == lonely_end
    elect([first], second, 2, (2,), set_epoch=20)
    await until(lambda: first.store.log_end == common, "the lonely bytes are cut")
    elect([second], second, 2, (1, 2), set_epoch=21)
    await confirmed(second, second.put(7, b"after"))
    await equal_logs(first, second)
    assert first.core.epochs == second.core.epochs == EpochHistory.of((1, 0), (2, common))
    (cut,) = first.reported("LogTruncated")
    assert (cut["from_offset"], cut["to_offset"]) == (lonely_end, common)


async def test_two_masters_that_begin_at_one_offset_never_share_a_label(start: Start) -> None:
    """The story of golden epoch-collision-rejoin.jsonl: there the returned replica keeps other
    bytes under the same label; here it is cut to where the collision began (S13).
    """
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    common = pair[0].put(3)
    await confirmed(pair[0], common)
    elect([pair[0]], pair[0], 2, (1, 2))  # epoch 2 begins at `common`; only broker 1 hears of it
    pair[0].put(1, b"written by 1")
    collided_end = pair[0].store.log_end
    await pair[0].stop(clean=False)
    elect([pair[1]], pair[1], 3, (1, 2))  # epoch 3 begins at `common` too
    pair[1].put(1, b"written by 2")
    assert pair[1].store.log_end == collided_end  # equally long, other bytes

    first = start(1)
    assert first.core.epochs == EpochHistory.of((1, 0), (2, common))
    elect([first], pair[1], 3, (1, 2))
    await confirmed(pair[1], collided_end)
    await equal_logs(first, pair[1])
    assert first.core.epochs == EpochHistory.of((1, 0), (3, common))
    assert first.reported("LogTruncated")[0]["to_offset"] == common


async def test_roles_change_back_and_forth_under_writes(start: Start) -> None:
    trio = [start(1), start(2), start(3)]
    total = 0
    for epoch in range(1, 9):
        master = trio[epoch % 3]
        elect(trio, master, epoch, (1, 2, 3))
        total += 20
        await confirmed(master, master.put(20, b"epoch %d" % epoch))
    await equal_logs(*trio)
    assert trio[0].store.log_end > 0
    for one in trio:
        assert one.core.epochs == trio[0].core.epochs
        assert len(one.core.epochs.entries) == 8
        await until(lambda one=one: len(one.roles) == 8, "the broker hears of every role")


async def test_waiters_are_aborted_when_the_mastership_ends(start: Start) -> None:
    pair = [start(1), start(2)]
    elect([pair[0]], pair[0], 1, (1, 2))
    waiting = asyncio.ensure_future(pair[0].driver.wait_confirmed(pair[0].put(), WAIT_MS))
    await asyncio.sleep(0)
    elect([pair[0]], pair[1], 2, (2,))
    assert await waiting is Confirmation.ABORTED
    assert await pair[0].driver.wait_confirmed(10**9, WAIT_MS) is Confirmation.ABORTED


async def test_a_wait_ends_at_its_timeout_without_success(start: Start) -> None:
    only = start(1)
    elect([only], only, 1, (1, 2))
    assert await only.driver.wait_confirmed(only.put(), 30) is Confirmation.TIMED_OUT


async def test_a_retried_proposal_keeps_its_command_id(start: Start) -> None:
    answers = [AlterResult(None), AlterResult(None)]

    def controller(effect) -> AlterResult:
        return answers.pop(0) if answers else accepting(effect)

    pair = [start(1, controller=controller), start(2)]
    elect(pair, pair[0], 1, (1,))
    await until(lambda: pair[0].core.sync_state_set == (1, 2), "the set grows at the third attempt")
    assert len(pair[0].command_ids) == 3
    assert len(set(pair[0].command_ids)) == 1
    assert len(pair[0].command_ids[0]) == 32


async def test_a_failing_disk_fences_and_nothing_behind_it_is_promised(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(3))
    before = pair[1].store.log_end

    def refuse(offset: int, data: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(pair[1].store, "append_raw", refuse)
    end = pair[0].put()
    await until(lambda: pair[1].core.role is Role.FENCED, "the slave fences itself")
    assert not pair[1].core.clean
    assert pair[1].core.log_end == before
    assert await pair[0].driver.wait_confirmed(end, 50) is Confirmation.TIMED_OUT


async def test_the_broker_is_told_that_the_disk_failed_whoever_noticed_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(3))

    def refuse(offset: int, data: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(pair[1].store, "append_raw", refuse)
    pair[0].put()
    await until(lambda: pair[1].disk_errors, "the slave's broker hears of it")
    assert "no space left" in pair[1].disk_errors[0]
    pair[0].driver.storage_failed("the log cannot be flushed")
    assert (pair[0].core.role, pair[0].core.clean) == (Role.FENCED, False)
    assert pair[0].driver.write_refusal() is not None


async def test_a_slow_reader_blocks_its_link_and_bounds_the_queue(start: Start) -> None:
    config = replace(CONFIG, file_bytes=1 << 24, batch_bytes=64 * 1024, min_in_sync_replicas=1)
    master = start(1, config=config)
    elect([master], master, 1, (1,))
    _reader, writer = await asyncio.open_connection("127.0.0.1", master.port, limit=1024)
    writer.write(
        bytes.fromhex("00000001000000000000000000000002")
        + bytes.fromhex("000000020000000000000000")
    )
    for _ in range(200):
        master.put(1, b"y" * 50_000)
        await asyncio.sleep(0)
    (link,) = master.driver._transport._links.values()
    assert len(link._queue) <= 130
    writer.close()


@pytest.mark.parametrize(
    "garbage", [b"\0\0\0\7" + b"\0" * 50, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000]
)
async def test_garbage_on_the_ha_port_closes_that_link_only(start: Start, garbage: bytes) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put())
    reader, writer = await asyncio.open_connection("127.0.0.1", pair[0].port)
    writer.write(garbage)
    try:
        assert await reader.read() == b""
    except ConnectionResetError:
        pass
    writer.close()
    await confirmed(pair[0], pair[0].put())


async def test_a_slave_answers_no_handshake(start: Start) -> None:
    pair = [start(1), start(2)]
    elect(pair, pair[0], 1, (1, 2))
    reader, writer = await asyncio.open_connection("127.0.0.1", pair[1].port)
    writer.write(bytes.fromhex("00000001000000000000000000000009"))
    try:
        assert await reader.read() == b""
    except ConnectionResetError:
        pass
    writer.close()


async def test_an_epoch_seen_survives_a_restart(start: Start) -> None:
    first = start(1)
    elect([first], first, 4, (1, 2))
    await first.stop(clean=False)
    again = start(1)
    elect([again], again, 4, (1, 2))
    assert again.core.role is Role.FENCED  # S6: it does not go on in its epoch
    assert again.asked == [True]
    elect([again], again, 5, (1, 2))
    assert again.core.role is Role.MASTER
    assert again.core.epochs == EpochHistory.of((5, 0))


async def test_a_slave_without_room_parts_clean_and_comes_back_by_itself(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(
        CONFIG, min_in_sync_replicas=1, ack_wait_shrink_ms=100, disk_full_backoff_min_ms=50
    )
    pair = [start(1, config=config, controller=accepting), start(2, config=config)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(3))
    slave, real, full = pair[1], pair[1].store.append_raw, [True]

    def append(offset: int, data: bytes) -> None:
        if full[0]:
            real(offset, data[:50])  # what still fits
            raise DiskFull("no room")
        real(offset, data)

    monkeypatch.setattr(slave.store, "append_raw", append)
    end = pair[0].put(30)
    await confirmed(pair[0], end)  # the set goes on without it
    assert pair[0].core.sync_state_set == (1,)
    assert slave.core.role is Role.SLAVE and slave.core.clean and not slave.disk_errors
    assert slave.core.log_end == slave.store.log_end < end
    full[0] = False
    await equal_logs(*pair)
    await until(lambda: pair[0].core.sync_state_set == (1, 2), "it belongs again")
    await until(lambda: slave.store.queue_bounds("T", 0) == (0, 33), "its queues hold all")
    assert slave.core.epochs == pair[0].core.epochs


async def test_a_slave_behind_the_first_file_of_its_master_begins_anew_and_says_so(
    start: Start,
) -> None:
    config = replace(
        CONFIG, min_in_sync_replicas=1, ack_wait_shrink_ms=100, file_bytes=4096, batch_bytes=1000
    )
    pair = [start(1, config=config, controller=accepting), start(2, config=config)]
    elect(pair, pair[0], 1, (1, 2))
    await confirmed(pair[0], pair[0].put(3))
    await equal_logs(*pair)
    await pair[1].stop()
    master = pair[0]
    end = master.put(100)
    await confirmed(master, end)
    trim(master.store.log, master.store.queues, end, end)()
    master.driver.log_trimmed()
    assert master.core.log.min_offset == master.store.log_min > 4096
    again = start(2, config=config)
    elect([again], master, 1, (1,))
    await until(
        lambda: any(
            ("needs an empty store folder") in down["reason"]
            for down in master.reported("HaLinkDown")
        ),
        "it is told why",
    )
    await until(
        lambda: again.store.log_end == end and again.store.log_min == master.store.log_min,
        "it began anew",
    )
    assert [cut["to_offset"] for cut in again.reported("LogTruncated")] == [0]
    assert again.reported("LogTruncated")[0]["reason"] == "the master's log begins later"
    assert again.log_bytes == master.log_bytes and again.core.clean and not again.disk_errors
    await until(
        lambda: again.store.queue_bounds("T", 0) == master.store.queue_bounds("T", 0),
        "so do its queues",
    )
    await until(lambda: master.core.sync_state_set == (1, 2), "it is a member again")
    empty = start(3, config=config)
    elect([empty], master, 1, (1,))
    await until(lambda: empty.store.log_end == end, "an empty replica copies what there is")
    assert (empty.store.log_min, empty.log_bytes) == (master.store.log_min, master.log_bytes)
    assert empty.core.epochs == master.core.epochs
