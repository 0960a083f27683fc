"""Retention on a real store: what is deleted, told, and refused."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import brokers.process.retention
from brokers.clock import Clock
from brokers.process.replica import LocalReplica
from brokers.process.retention import RetentionTask, make_retention
from brokers.store.files.errors import DiskFull
from brokers.store.files.json_files import JsonFile
from brokers.store.log.retention import Policy
from brokers.store.store import MessageStore
from tests.support.brokers import broker_config
from tests.support.small_disk import small_disk
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store


class Rig:
    def __init__(
        self, store: MessageStore, monkeypatch: pytest.MonkeyPatch, *, hours: range = range(24)
    ) -> None:
        self.store, self.used, self.wanted = store, 0.1, None
        self.told: list[tuple[str, dict[str, object]]] = []
        self.trims: list[int] = []
        self.failures: list[str] = []
        monkeypatch.setattr(brokers.process.retention, "used_ratio", lambda _: self.used)
        clock = Clock()
        clock.wall_ms = lambda: NOW_MS + 1000 + self.wall_ms  # type: ignore[method-assign]
        clock.now_ms = lambda: 5_000 + self.later_ms  # type: ignore[method-assign]
        self.later_ms = self.wall_ms = 0
        self.task = RetentionTask(
            store,
            Policy(60_000, frozenset(hours), 75, 85, 90),
            clock,
            wanted=lambda: self.wanted,
            trimmed=lambda: self.trims.append(store.log_min),
            report=lambda *event: self.told.append(event),
            failed=self.failures.append,
        )


def filled(root: Path, count: int = 100) -> MessageStore:
    store = small_store(root)
    for number in range(count):
        store.put(message(body=b"%d" % number), NOW_MS + number)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    return store


async def test_nothing_goes_that_is_not_on_the_disk_with_its_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    for number in range(100):
        store.put(message(body=b"%d" % number), NOW_MS + number)
    store.dispatch_to(store.log_end)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    rig.later_ms = 61_000
    await rig.task.clean()
    assert store.log_min == 0 and not rig.told
    store.checkpoint()
    await rig.task.clean()
    assert store.log_min > 0 and rig.told
    store.close()


async def test_old_files_go_when_their_time_has_come_and_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    assert store.log_min == 0 and not rig.told
    rig.later_ms = 61_000
    await rig.task.clean()
    newest = store.log.file_starts[0]
    assert store.log.file_starts == (newest,) and rig.trims == [newest]
    assert rig.told == [
        (
            "LogTrimmed",
            {"from_offset": 0, "to_offset": newest, "reason": ("older than the reserved time")},
        )
    ]
    store.close()


async def test_74_an_operator_has_old_files_deleted_at_any_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    rig = Rig(store, monkeypatch)
    rig.task.policy = replace(rig.task.policy, hours=frozenset())
    await rig.task.clean(whatever_hour=True)
    rig.later_ms = 61_000
    await rig.task.clean()
    assert store.log_min == 0
    await rig.task.clean(whatever_hour=True)
    assert store.log_min > 0
    store.close()


@pytest.mark.parametrize("stored_ms", [0, 5_000, NOW_MS, NOW_MS + 80 * 3_600_000, 1 << 50])
async def test_no_clock_that_jumps_deletes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored_ms: int
) -> None:
    """Stored while a master's clock stood at 1970, or ran ahead; then the clock here jumps, and a
    broker starts anew.
    """
    store = filled(tmp_path)
    store.put(message(body=b"odd"), stored_ms)
    for number in range(100):
        store.put(message(body=b"%d" % number), NOW_MS + number)
    store.dispatch_to(store.log_end)
    for hours in (0, 80, -80, 500_000):
        rig = Rig(store, monkeypatch)
        rig.wall_ms = hours * 3_600_000
        await rig.task.clean()
        rig.later_ms = 100  # of running
        await rig.task.clean()
        assert store.log_min == 0 and not rig.told
    store.close()


async def test_how_long_files_were_held_outlives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers.process.retention, "SAVE_MS", 1)
    store = filled(tmp_path)
    for ran_ms in (0, 30_000, 30_000):  # as runs of a process
        assert store.log_min == 0
        rig = Rig(store, monkeypatch)
        rig.later_ms = ran_ms
        await rig.task.clean()
    assert store.log.file_starts == (store.log_min,) and store.log_min > 0
    store.close()


async def test_a_file_of_held_times_that_is_damaged_or_refused_only_makes_files_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    (tmp_path / "config" / "heldTime.json").write_bytes(b'{"ranMs": -1}')
    again = Rig(store, monkeypatch)
    again.later_ms = 59_000
    await again.task.clean()
    assert store.log_min == 0
    monkeypatch.setattr(JsonFile, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "planted")))
    again.later_ms = 59_000 + 60_000
    await again.task.clean()
    assert store.log_min > 0 and again.failures == []
    store.close()


async def test_nothing_goes_that_a_linked_slave_still_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    rig.later_ms, rig.wanted = 61_000, 5000
    await rig.task.clean()
    assert store.log_min == 4096
    store.close()


async def test_beyond_its_share_the_disk_counts_as_full_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path, 20)
    rig = Rig(store, monkeypatch)
    rig.used = 0.91
    rig.task.look()
    rig.task.look()
    with pytest.raises(DiskFull, match="as full as it may be"):
        store.put(message(), NOW_MS)
    assert store.query("T", 0, 0, 32).body
    rig.used = 0.9
    rig.task.look()
    store.put(message(), NOW_MS)
    assert [kind for kind, _ in rig.told] == ["DiskFull", "DiskWritable"]
    store.close()


async def test_room_that_comes_back_is_noticed_though_nobody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path) as disk:
        store = filled(disk.root, 20)
        rig = Rig(store, monkeypatch)
        disk.fill()
        with pytest.raises(DiskFull):
            for _ in range(100):
                store.put(message(), NOW_MS)
        rig.task.look()
        assert [kind for kind, _ in rig.told] == ["DiskFull"]
        disk.free()
        rig.task.look()
        assert [kind for kind, _ in rig.told] == [
            "DiskFull",
            "DiskWritable",
        ] and store.writable() is None
        store.close()


async def test_a_disk_that_cannot_delete_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    rig.later_ms = 61_000
    monkeypatch.setattr(
        Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "planted"))
    )
    await rig.task.clean()
    assert len(rig.failures) == 1 and "planted" in rig.failures[0] and not rig.trims
    monkeypatch.undo()
    store.close(clean=False)


async def test_it_runs_by_itself_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = broker_config(
        tmp_path,
        ["127.0.0.1:1"],
        delete_when="04;16",
        disk_clean_forcibly_percent=85,
        disk_full_percent=95,
    )
    replica, told = LocalReplica(config), []
    task = make_retention(config, replica, Clock(), lambda *event: told.append(event))
    assert task.policy == Policy(72 * 3_600_000, frozenset({4, 16}), 75, 85, 95)
    monkeypatch.setattr(brokers.process.retention, "used_ratio", lambda _: 0.96)
    running = asyncio.ensure_future(task.run())
    while not told:
        await asyncio.sleep(0)
    running.cancel()
    assert (
        told[0][0] == "DiskFull"
        and replica.store.writable() is not None
        and replica.wanted_offset() is None
    )
    replica.close()


async def test_nothing_goes_before_it_is_durable_where_its_queues_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    for _ in range(100):
        store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    rig = Rig(store, monkeypatch)
    await rig.task.clean()
    rig.later_ms = 61_000
    await rig.task.clean()
    assert store.log_min == 0
    store.checkpoint()
    await rig.task.clean()
    assert store.log_min > 0
