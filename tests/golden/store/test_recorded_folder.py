"""A store folder of a Java 5.3.3 master, put together again from its recorded files, opened by ours
as a whole.

What ours has no use for stays as it was, byte for byte: a Java broker opens the folder again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from brokers.ha.epochs import EpochHistory
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.registration import Identity
from brokers.process.replica import LocalReplica
from brokers.remoting import fastjson
from brokers.service.tables.table_files import TableFiles
from brokers.store.recovery.boot import MARKER_NAME
from tests.support.brokers import broker_config

HERE = Path(__file__).parent
LOG_FILE_BYTES = 16 * 1024 * 1024
QUEUE_FILE_BYTES = 1_000_000
LOG_END = 7302
FIRST_FILE = f"{0:020d}"
CONFIG = (
    "topics.json",
    "subscriptionGroup.json",
    "consumerOffset.json",
    "delayOffset.json",
    "messageRequestMode.json",
    "timermetrics",
    "timercheck",
)
NOT_OURS = (
    "consumerFilter.json",
    "consumerOrderInfo.json",
    "topicQueueMapping.json",
    "transactionMetrics",
)
TOP = (
    "abort.bak",
    "brokerIdentity",
    "checkpoint",
    "epochFileCheckpoint",
    "epochFileCheckpoint.bak",
)


def place(source: str, target: Path, size: int | None = None) -> None:
    """The recorded bytes, as the first ones of a file of `size` bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / source, target)
    if size is not None:
        with target.open("r+b") as file:
            file.truncate(size)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the Java broker left it after its orderly end; the slot table of its index was not
    recorded, so that has none.
    """
    root = tmp_path / "store"
    place("commitlog_first_8k", root / "commitlog" / FIRST_FILE, LOG_FILE_BYTES)
    for path in sorted(HERE.glob("consumequeue__*")):
        _, topic, queue = path.name.split("__")
        place(path.name, root / "consumequeue" / topic / queue / FIRST_FILE, QUEUE_FILE_BYTES)
    for name in (*CONFIG, *NOT_OURS):
        place(name, root / "config" / name)
        place(name, root / "config" / f"{name}.bak")
    for name in TOP:
        place(name, root / name)
    place("timerlog_first_4k", root / "timerlog" / FIRST_FILE, 4 * 1024 * 1024)
    place("compaction_position-checkpoint", root / "compaction" / "position-checkpoint")
    return root


def opened(folder: Path) -> LocalReplica:
    sizes = {
        "commit_log_file_bytes": LOG_FILE_BYTES,
        "consume_queue_file_entries": QUEUE_FILE_BYTES // 20,
        "message_index": False,
    }
    return LocalReplica(broker_config(folder, ["127.0.0.1:1"], **sizes))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_is_opened_as_a_clean_folder_with_log_queues_and_history(folder: Path) -> None:
    replica = opened(folder)
    try:
        assert (replica.boot.clean, replica.boot.reason) == (True, "foreign_flushed_exit")
        assert replica.store.recovery.end_offset == replica.store.log_end == LOG_END
        assert replica.store.recovery.cut_bytes == replica.store.recovery.missing_bytes == 0
        assert replica.store.confirm_offset == LOG_END
        assert replica.epochs == EpochHistory.of((1, 0), (2, 6002))
        bounds = {
            path.name: replica.store.queue_bounds(*_queue(path))
            for path in HERE.glob("consumequeue__*")
        }
        recorded = {
            path.name: (0, sum(any(path.read_bytes()[at : at + 20]) for at in range(0, 400, 20)))
            for path in HERE.glob("consumequeue__*")
        }
        assert bounds == recorded and max(end for _, end in bounds.values()) > 3
    finally:
        replica.store.close()


def _queue(path: Path) -> tuple[str, int]:
    _, topic, queue = path.name.split("__")
    return topic, int(queue)


def test_every_message_of_its_queues_is_read(folder: Path) -> None:
    replica = opened(folder)
    try:
        for path in HERE.glob("consumequeue__*"):
            topic, queue = _queue(path)
            _, end = replica.store.queue_bounds(topic, queue)
            at = 0
            while at < end:
                answer = replica.store.query(topic, queue, at, 32)
                assert answer.next_offset > at
                at = answer.next_offset
    finally:
        replica.store.close()


def test_identity_and_tables_are_the_java_brokers(folder: Path) -> None:
    assert IdentityFiles(folder).read_identity() == Identity("DefaultCluster", "g", 1)
    tables = TableFiles(folder)
    assert tables.topics.get("Life") is not None
    assert any(
        key.startswith("Life@") for key in fastjson.loads(tables.offsets.text())["offsetTable"]
    )


async def test_opened_used_and_closed_the_rest_is_untouched(folder: Path) -> None:
    before = contents(folder)
    replica = opened(folder)
    tables = TableFiles(folder)
    replica.store.close()
    await tables.close()
    after = contents(folder)
    ours = {name for name in after if name.startswith((MARKER_NAME, "lock", "checkpoint"))} | {
        "checkpoint"
    }
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed <= ours, changed
    # its timer queue was not recorded: that one is made again. Java ends at start on a file whose
    # name is no number
    in_folders = {name for name in set(after) - set(before) if "/" in name}
    assert in_folders == {f"consumequeue/rmq_sys_wheel_timer/0/{FIRST_FILE}"}


def test_a_marker_left_over_under_another_name_is_no_unclean_end(folder: Path) -> None:
    (folder / "abort.bak").write_bytes(b"4711")
    replica = opened(folder)
    replica.store.close()
    assert replica.boot.clean
    (folder / MARKER_NAME).unlink()
    (folder / "abort").write_bytes((HERE / "abort.bak").read_bytes())
    killed = opened(folder)
    killed.store.close()
    assert killed.boot.reason in ("foreign_same_boot", "foreign_other_boot")
