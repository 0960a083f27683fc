"""Opening a store after every kind of end: kill, torn tail, lost writes, cut in between."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.store.files.errors import DiskFull
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields
from brokers.store.recovery import damage as recovery_damage
from brokers.store.recovery import recovery
from brokers.store.recovery.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from brokers.store.store import MessageStore, StoreConfig
from brokers.store.trimming import trim
from tests.support.examples import examples
from tests.unit.brokers.store.log_samples import (
    NOW_MS,
    bodies,
    encoded,
    log_bytes,
    message,
    sized,
    small_store,
)
from tests.unit.brokers.store.queues.test_entry_runs import messages


def killed(
    root: Path, messages: int = 30, confirm: int | None = None, checkpoint_at: int = -1
) -> tuple[bytes, list[int]]:
    """A store that died without warning; returns its log and the ends of its messages."""
    store = small_store(root)
    ends = []
    for number in range(messages):
        ends.append(
            store.put(
                message(queue_id=number % 2, body=b"%d" % number), NOW_MS + number * 1000
            ).end_offset
        )
        if number == checkpoint_at:
            store.dispatch_to(store.log_end)
            store.checkpoint()
    store.dispatch_to(store.log_end if confirm is None else confirm)
    data = log_bytes(store)
    store.close(clean=False)
    return data, ends


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("same_boot", [True, False])
def test_after_a_kill_everything_written_is_there(tmp_path: Path, same_boot: bool) -> None:
    data, _ = killed(tmp_path, checkpoint_at=29)
    store = small_store(tmp_path, same_boot=same_boot)
    assert log_bytes(store) == data
    assert store.recovery.abnormal
    assert (store.recovery.cut_bytes, store.confirm_offset) == (0, len(data))
    assert bodies(store, 0) == [b"%d" % number for number in range(0, 30, 2)]


def test_a_clean_end_leaves_no_mark(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(30):
        store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    end = store.log_end
    store.close()
    again = small_store(tmp_path)
    assert (again.recovery.abnormal, again.log_end, again.confirm_offset) == (False, end, end)
    assert again.put(message(), NOW_MS).queue_offset == 30


def test_the_measured_slave_keeps_end_and_confirm_offset_apart(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(4):
        store.put(sized(147), NOW_MS)
    store.dispatch_to(441)
    store.close(clean=False)
    again = small_store(tmp_path, same_boot=True)
    assert (again.log_end, again.confirm_offset, again.queue_bounds("T", 0)) == (588, 441, (0, 3))
    assert again.put(sized(147), NOW_MS).queue_offset == 4


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("damage", ["flipped byte", "second half zero", "all zero"])
def test_a_broken_last_message_is_cut(tmp_path: Path, damage: str, same_boot: bool) -> None:
    store = small_store(tmp_path)
    for slot in range(5):
        store.put(sized(200), NOW_MS + slot * 10_000)
    store.dispatch_to(store.log_end)
    store.close(clean=False)
    position, data = {
        "flipped byte": (950, b"!"),
        "second half zero": (900, bytes(100)),
        "all zero": (800, bytes(200)),
    }[damage]
    overwrite(log_file(tmp_path), position, data)
    again = small_store(tmp_path, same_boot=same_boot)
    assert again.log_end == 800
    assert again.confirm_offset <= 800
    assert (
        again.recovery.cut_bytes
        == {"flipped byte": 198, "second half zero": 100, "all zero": 0}[damage]
    )
    again.dispatch_to(800)
    assert again.queue_bounds("T", 0) == (0, 4)
    assert again.put(sized(200), NOW_MS) == (800, 1000, 4, "0A00000200002A9F0000000000000320")


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_lost_writes_after_the_checkpoint_cost_only_a_tail(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Power is lost: any 512-byte pieces of log and queues that were written after the checkpoint
    may be gone.
    """
    root = tmp_path_factory.mktemp("power")
    at = data.draw(st.integers(0, 39))
    written, ends = killed(root, messages=40, checkpoint_at=at)
    flushed = ends[at]
    for start in range(flushed // 4096 * 4096, len(written), 4096):
        for piece in range(0, 4096, 512):
            if start + piece >= flushed and data.draw(st.booleans()):
                overwrite(log_file(root, start), piece, bytes(512))
    for queue_file in (root / "consumequeue").rglob("0*"):
        if queue_file.is_file() and data.draw(st.booleans()):
            kept = [entry for entry in range(10) if _points_below(queue_file, entry, flushed)]
            first_loose = len(kept) * 20
            overwrite(queue_file, first_loose, bytes(200 - first_loose))
    store = small_store(root)
    end = store.log_end
    assert end >= flushed
    assert end in (flushed, *ends) or end % 4096 == 0
    assert log_bytes(store) == written[:end]
    assert flushed <= store.confirm_offset <= end
    store.dispatch_to(end)
    survivors = sum(message_end <= end for message_end in ends)
    assert bodies(store, 0) == [b"%d" % number for number in range(0, survivors, 2)]
    assert bodies(store, 1) == [b"%d" % number for number in range(1, survivors, 2)]
    store.close()
    shutil.rmtree(root)


def _points_below(path: Path, entry: int, offset: int) -> bool:
    data = path.read_bytes()[entry * 20 : entry * 20 + 20]
    return any(data) and int.from_bytes(data[:8], "big") < offset


@pytest.mark.parametrize("lost", [0, 1])
def test_a_kill_between_the_writes_of_two_queues_leaves_no_hole(tmp_path: Path, lost: int) -> None:
    killed(tmp_path)
    last_file = max((tmp_path / "consumequeue" / "T" / str(lost)).iterdir())
    data = last_file.read_bytes().rstrip(b"\0")
    overwrite(last_file, max(len(data) // 20 * 20 - 40, 0), bytes(60))
    store = small_store(tmp_path, same_boot=True)
    assert bodies(store, 0) == [b"%d" % number for number in range(0, 30, 2)]
    # 29 is not known as confirmed
    assert bodies(store, 1) == [b"%d" % number for number in range(1, 30, 2)][: 15 - lost]
    store.dispatch_to(store.log_end)
    assert len(bodies(store, 1)) == 15


def test_queues_removed_by_hand_are_rebuilt(tmp_path: Path) -> None:
    data, _ = killed(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    store = small_store(tmp_path, same_boot=True)
    assert log_bytes(store) == data
    store.dispatch_to(len(data))
    assert len(bodies(store, 0)) == 15


def test_queues_without_a_log_start_again(tmp_path: Path) -> None:
    killed(tmp_path)
    shutil.rmtree(tmp_path / "commitlog")
    store = small_store(tmp_path)
    assert (store.log_end, store.confirm_offset, store.queue_bounds("T", 0)) == (0, 0, (0, 0))
    assert store.put(message(), NOW_MS)[:3] == (0, store.log_end, 0)


def test_the_confirm_offset_never_exceeds_the_log(tmp_path: Path) -> None:
    killed(tmp_path, messages=3)
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(confirm_offset=10**12))
    store = small_store(tmp_path)
    assert store.confirm_offset == store.log_end


def test_a_missing_checkpoint_costs_reading_not_messages(tmp_path: Path) -> None:
    data, _ = killed(tmp_path, checkpoint_at=20)
    (tmp_path / "checkpoint").unlink()
    store = small_store(tmp_path)
    assert log_bytes(store) == data
    assert store.recovery.scanned_from == 0
    store.dispatch_to(store.log_end)
    assert len(bodies(store, 1)) == 15


def test_a_clock_that_went_back_does_not_hide_unflushed_files(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(sized(1000), NOW_MS + 60_000)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    for _ in range(12):
        store.put(sized(1000), NOW_MS)  # the next master's clock is behind
    store.dispatch_to(store.log_end)
    store.close(clean=False)
    assert small_store(tmp_path).recovery.scanned_from == 0


def test_cut_at_every_message_then_reopened(tmp_path: Path) -> None:
    data, ends = killed(tmp_path / "full")
    for to in [0, *ends]:
        root = tmp_path / str(to)
        shutil.copytree(tmp_path / "full", root)
        store = small_store(root, same_boot=True)
        assert store.is_message_start(to)
        assert store.truncate(to) == to
        store.close(clean=False)
        again = small_store(root, same_boot=True)
        assert log_bytes(again) == data[:to]
        assert again.confirm_offset == to
        kept = sum(end <= to for end in ends)
        assert len(bodies(again, 0)) + len(bodies(again, 1)) == kept
        assert again.put(message(queue_id=kept % 2), NOW_MS).queue_offset == kept // 2
        again.close()


def test_a_confirm_offset_recorded_before_a_cut_does_not_cover_new_bytes(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(sized(200), NOW_MS)
    store.dispatch_to(600)
    store.checkpoint()
    store.truncate(400)
    store.append_raw(400, b"".join(encoded_at(400 + k * 200, 2 + k) for k in range(2)))
    store.close(clean=False)
    again = small_store(tmp_path, same_boot=True)
    assert (again.log_end, again.confirm_offset) == (800, 400)


def encoded_at(position: int, slot: int) -> bytes:
    return encoded(sized(200), slot, position)


def test_a_log_that_fills_its_file_goes_on_in_the_next(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(sized(4088), NOW_MS)
    store.put(sized(100), NOW_MS)
    store.truncate(4096)
    store.close(clean=False)
    again = MessageStore(tmp_path, store.config, same_boot=True)
    assert again.log_end == 4096
    assert again.put(sized(100), NOW_MS).physical_offset == 4096


def test_what_a_killed_run_wrote_is_made_durable_by_the_next(tmp_path: Path) -> None:
    killed(tmp_path, messages=60, checkpoint_at=30)
    store = small_store(tmp_path, same_boot=True)
    assert 0 < store.log.flushed_offset < store.log_end
    taken = store.queues.take_unsynced()
    assert [path.rsplit("/", 2)[1:] for path in taken.files] == [
        [queue, f"{start:020d}"] for queue in "01" for start in (200, 400)
    ]
    assert len(taken.folders) == 4
    assert store.flush() == store.log_end


WRITER = """
import sys
from pathlib import Path
from tests.unit.brokers.store.log_samples import message, small_store, NOW_MS
store = small_store(Path(sys.argv[1]))
number = 0
while True:
    end = store.put(message(queue_id=number % 3, body=b"%d" % number), NOW_MS + number).end_offset
    store.dispatch_to(end)
    print(number, end, flush=True)
    number += 1
"""


def test_a_process_killed_in_the_middle_of_writing_loses_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[5]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert writer.stdout is not None
    lines = [next(writer.stdout) for _ in range(500)]
    writer.kill()
    lines += writer.stdout.read().rpartition("\n")[0].splitlines()  # the last may be cut short
    writer.wait()
    writer.stdout.close()
    number, end = map(int, lines[-1].split())
    store = small_store(tmp_path, same_boot=True)
    assert store.log_end >= store.confirm_offset >= end
    store.dispatch_to(store.log_end)
    for queue_id in range(3):
        wanted = [b"%d" % n for n in range(queue_id, number + 1, 3)]
        assert bodies(store, queue_id)[: len(wanted)] == wanted


def test_the_durable_end_is_the_last_record_border_that_was_flushed(tmp_path: Path) -> None:
    _, ends = killed(tmp_path, 30, checkpoint_at=12)
    recovery = small_store(tmp_path).recovery
    assert recovery.durable_end == ends[12] < recovery.end_offset


def test_a_java_checkpoint_says_by_time_what_was_durable(tmp_path: Path) -> None:
    _, ends = killed(tmp_path, messages=60, checkpoint_at=40)
    position = next(at for at in range(60) if ends[at] > 4096)  # in the second file of the log
    java = Checkpoint(
        NOW_MS + position * 1000 + 3500, NOW_MS + position * 1000 + 3500, 0, None, ends[40]
    )
    write_checkpoint(tmp_path / "checkpoint", java)
    store = small_store(tmp_path)
    assert store.recovery.durable_end == 4096
    assert store.log_end == ends[-1] and store.recovery.missing_bytes == 0
    assert store.confirm_offset >= ends[40]
    store.dispatch_to(store.log_end)
    assert len(bodies(store, 0)) == len(bodies(store, 1)) == 30


def test_a_copy_that_was_killed_inside_a_records_text_ends_in_front_of_that_record(
    tmp_path: Path,
) -> None:
    """No checksum covers properties: a text that ends in zeros was never written to its end, and
    would stay like that.
    """
    master = small_store(tmp_path / "m")
    ends = [
        master.put(message(body=b"%d" % number, tag="tag"), NOW_MS).end_offset
        for number in range(3)
    ]
    data = log_bytes(master)
    master.close()
    for tear in range(ends[1] + 1, ends[2]):
        root = tmp_path / str(tear)
        slave = small_store(root)
        slave.append_raw(0, data[:tear])
        slave.close(clean=False)
        again = small_store(root, same_boot=True)
        assert again.log_end == ends[1]
        again.append_raw(ends[1], data[ends[1] :])
        assert log_bytes(again) == data
        again.close()


def test_what_was_flushed_and_confirmed_is_not_doubted(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    end = store.put(replace(message(), properties=b"a\x01ends in zero\0"), NOW_MS).end_offset
    store.dispatch_to(end)
    store.checkpoint()
    store.close(clean=False)
    assert small_store(tmp_path, same_boot=True).log_end == end


def test_a_lost_entry_does_not_take_durable_ones_behind_it_along(tmp_path: Path) -> None:
    """T/0 is idle for a file of the log; of its entries one became zeros before power was lost."""
    store = small_store(tmp_path)
    for number in range(30):
        store.put(message(body=b"%d" % number), NOW_MS + number * 10_000)
    for number in range(80):
        store.put(message(queue_id=1), NOW_MS + (40 + number) * 10_000)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    store.close(clean=False)
    overwrite(tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}", 40, bytes(20))
    again = small_store(tmp_path)
    assert again.recovery.scanned_from == 8192
    assert again.queue_bounds("T", 0) == (0, 30)
    assert [again.query("T", 0, slot, 1).messages for slot in (11, 12, 13, 29)] == [1, 0, 1, 1]
    assert again.put(message(), NOW_MS).queue_offset == 30


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("flushed", [4, 34])
def test_a_queue_file_that_became_empty_is_made_again(
    tmp_path: Path, flushed: int, same_boot: bool
) -> None:
    store = small_store(tmp_path)
    for number in range(35):
        store.put(message(body=b"%d" % number), NOW_MS + number * 10_000)
        store.dispatch_to(store.log_end)
        if number == flushed:
            store.checkpoint()
    store.close(clean=False)
    (tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}").write_bytes(b"")
    again = small_store(tmp_path, same_boot=same_boot)
    again.dispatch_to(again.log_end)
    assert bodies(again) == [b"%d" % number for number in range(35)]


@pytest.mark.parametrize("same_boot", [True, False])
def test_a_queue_whose_only_file_is_empty_has_its_messages(tmp_path: Path, same_boot: bool) -> None:
    """Where queues go on was written before its messages came, and the log's last file has none of
    them.
    """
    store = small_store(tmp_path)
    store.put(message(queue_id=1), NOW_MS)
    store.checkpoint()
    store.put(message(), NOW_MS)
    while len(store.log.file_starts) < 3:
        store.put(message(queue_id=1), NOW_MS)
    store.dispatch_to(store.log_end)
    ends = store.ends.remembered
    store.checkpoint_job()()
    assert store.ends.remembered == ends, "written again: the test shows nothing"
    store.close(clean=False)
    (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").write_bytes(b"")
    again = small_store(tmp_path, same_boot=same_boot)
    again.dispatch_to(again.log_end)
    assert bodies(again) == [b"body"]


def test_what_a_killed_run_wiped_is_made_durable_by_the_next_one(tmp_path: Path) -> None:
    """Its zeros may never come to the disk otherwise, and what they wiped looks like an entry."""
    store = small_store(tmp_path)
    for _ in range(3):
        put = store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    store.truncate(put.physical_offset)
    store.close(clean=False)
    again = small_store(tmp_path, same_boot=True)
    assert again.queues.take_unsynced().files == [
        str(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}")
    ]


def test_a_queue_that_loses_all_its_messages_to_a_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(10):
        store.put(message(), NOW_MS)
    while len(store.log.file_starts) < 3:
        store.put(message(queue_id=1), NOW_MS)
    border = store.put(message(), NOW_MS).physical_offset
    store.dispatch_to(store.log_end)
    trim(store.log, store.queues, store.log.file_starts[2], store.dispatched_offset)()
    store.truncate(border)
    assert store.queue_bounds("T", 0) == (10, 10)
    assert store.put(message(), NOW_MS).queue_offset == 10


@pytest.mark.parametrize("confirmed", [False, True])
def test_what_was_confirmed_and_not_flushed_may_be_torn_by_a_loss_of_power(
    tmp_path: Path, confirmed: bool
) -> None:
    """The checkpoint's confirm offset is read after its flush: under load it is higher."""
    store = small_store(tmp_path)
    store.put(message(body=bytes(300)), NOW_MS)
    end = store.log_end
    store.dispatch_to(end)
    store.checkpoint()
    properties = encode_properties({"KEYS": "order", "a": "x" * 3000, "amount": "100"})
    store.put(replace(message(), properties=properties), NOW_MS)
    if confirmed:
        store.dispatch_to(store.log_end)
        known = read_checkpoint(tmp_path / "checkpoint")
        write_checkpoint(
            tmp_path / "checkpoint", dataclasses.replace(known, confirm_offset=store.log_end)
        )
    store.close(clean=False)
    overwrite(log_file(tmp_path), 1024, bytes(512))  # in the middle of the properties
    again = small_store(tmp_path)
    assert again.log_end == end
    assert again.put(message(), NOW_MS).queue_offset == 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("at", [88, 2, 33], ids=["body", "length", "position"])
def test_a_damaged_record_takes_no_sound_one_along(
    tmp_path: Path, clean: bool, same_boot: bool, at: int
) -> None:
    """One flipped byte in what was flushed, in the file that a start reads."""
    store = small_store(tmp_path)
    places = [
        store.put(message(body=b"%d" % number), NOW_MS + number).physical_offset
        for number in range(60)
    ]
    store.dispatch_to(store.log_end)
    store.checkpoint()
    data = log_bytes(store)
    store.close(clean=clean)
    number = next(number for number, place in enumerate(places) if place >= 4096) + 4
    file, within = log_file(tmp_path, places[number] // 4096 * 4096), places[number] % 4096 + at
    overwrite(file, within, bytes([file.read_bytes()[within] ^ 0x11]))
    again = small_store(tmp_path, same_boot=same_boot)
    assert (again.log_end, again.confirm_offset, again.recovery.missing_bytes) == (
        len(data),
        len(data),
        0,
    )
    (bad,) = again.recovery.damaged
    assert bad.place.offset == places[number] and bad.proven
    again.dispatch_to(again.log_end)
    assert again.queue_bounds("T", 0) == (0, 60)
    answer = again.query("T", 0, number, 1)
    assert answer.refused is not None and answer.body == b""
    assert [again.query("T", 0, slot, 1).messages for slot in range(60)] == [
        slot != number for slot in range(60)
    ]
    assert again.put(message(), NOW_MS).queue_offset == 60


def test_what_is_cut_off_a_log_is_kept_beside_it(tmp_path: Path) -> None:
    _, ends = killed(tmp_path, checkpoint_at=12)
    data = log_file(tmp_path).read_bytes().rstrip(b"\0")
    overwrite(log_file(tmp_path), ends[20] + 88, b"!")
    again = small_store(tmp_path)
    assert again.log_end == ends[20]
    (kept,) = (tmp_path / "cutAtStart").iterdir()
    assert (
        kept.name.startswith(f"{ends[20]:020d}") and kept.read_bytes()[91:] == data[ends[20] + 91 :]
    )


def test_a_sector_that_cannot_be_read_costs_its_records_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    places = [
        store.put(message(body=b"%d" % number), NOW_MS + number).physical_offset
        for number in range(110)
    ]
    store.dispatch_to(store.log_end)
    end = store.log_end
    store.close()
    real, bad = os.pread, range(places[99] % 4096 + 10, places[99] % 4096 + 20)

    def pread(fd: int, count: int, position: int) -> bytes:
        name = os.readlink(f"/proc/self/fd/{fd}")
        if (
            name.endswith(log_file(tmp_path, places[99] // 4096 * 4096).name)
            and "commitlog" in name
        ):
            if position < bad.stop and position + count > bad.start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, count, position)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(recovery_damage, "SECTOR_BYTES", 64)
    again = small_store(tmp_path, same_boot=True)
    assert again.log_end == end
    assert [one.place.offset for one in again.recovery.damaged] == [places[99]]
    assert "cannot be read" in again.recovery.damaged[0].reason
    again.dispatch_to(again.log_end)
    assert [slot for slot in range(110) if again.query("T", 0, slot, 1).messages == 0] == [99]


def trimmed(root: Path) -> MessageStore:
    """T/0 had five messages, which are gone from the log; T/1 goes on."""
    store = small_store(root)
    for _ in range(5):
        store.put(message(), NOW_MS)
    while len(store.log.file_starts) < 3:
        store.put(message(queue_id=1), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    trim(store.log, store.queues, store.log.file_starts[1], store.remembered_offset)()
    assert store.queue_bounds("T", 0) == (5, 5)
    return store


def test_a_folder_without_ends_as_javas_has_them_before_the_first_checkpoint(
    tmp_path: Path,
) -> None:
    store = trimmed(tmp_path)
    before = [store.queue_bounds("T", queue_id) for queue_id in (0, 1)]
    store.close()
    (tmp_path / "queueEnds").unlink()
    small_store(tmp_path).close(clean=False)
    shutil.rmtree(tmp_path / "consumequeue")
    store = small_store(tmp_path)
    assert [store.queue_bounds("T", queue_id) for queue_id in (0, 1)] == before
    assert store.put(message(), NOW_MS).queue_offset == 5


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", ["all", "one"])
def test_queues_whose_folders_are_gone_go_on_where_they_were(
    tmp_path: Path, clean: bool, same_boot: bool, lost: str
) -> None:
    store = trimmed(tmp_path)
    before = [store.queue_bounds("T", queue_id) for queue_id in (0, 1)]
    store.close(clean=clean)
    shutil.rmtree(tmp_path / "consumequeue" / ("T" if lost == "all" else "T/0"))
    for _ in range(2):  # the second start finds what the first one left
        again = small_store(tmp_path, same_boot=same_boot)
        again.dispatch_to(again.log_end)
        assert [again.queue_bounds("T", queue_id) for queue_id in (0, 1)] == before
        assert again.query("T", 0, 5, 32).status.value == "OFFSET_OVERFLOW_ONE"
        again.close()
    again = small_store(tmp_path)
    assert again.put(message(body=b"new"), NOW_MS).queue_offset == 5
    again.dispatch_to(again.log_end)
    assert (again.queue_bounds("T", 0), bodies(again)) == ((5, 6), [b"new"])


def test_a_queue_whose_folder_is_gone_is_made_again_from_the_log(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for number in range(100):
        store.put(message(queue_id=number % 20 // 19, body=b"%d" % number), NOW_MS + number)
    store.dispatch_to(store.log_end)
    before = bodies(store, 1)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue" / "T" / "1")
    again = small_store(tmp_path)
    assert again.recovery.scanned_from == 0 and bodies(again, 1) == before
    again.close()
    assert small_store(tmp_path).recovery.scanned_from > 0


def test_a_replica_that_was_emptied_and_copied_anew_knows_where_its_queues_were(
    tmp_path: Path,
) -> None:
    master, slave = trimmed(tmp_path / "m"), trimmed(tmp_path / "s")
    slave.truncate(0)
    at = master.log_min
    while at < master.log_end:
        data = master.read_log(at, 1 << 20)
        slave.append_raw(at, data)
        at += len(data)
    slave.dispatch_to(slave.log_end)
    assert bodies(slave, 1) == bodies(master, 1)
    slave.rebuild_queue_offsets()
    assert slave.queue_bounds("T", 0) == (5, 5)
    assert slave.put(message(), NOW_MS).queue_offset == 5


def test_a_queue_born_after_the_last_checkpoint_costs_no_look_through_the_log(
    tmp_path: Path,
) -> None:
    """Power is lost: the first page of its entries never came to the disk, the second did."""
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=4096, queue_file_bytes=20_000))
    for number in range(200):
        store.put(message(), NOW_MS + number * 1000)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    for number in range(400):
        store.put(message("New"), NOW_MS + (200 + number) * 1000)
    store.dispatch_to(store.log_end)
    store.close(clean=False)
    overwrite(tmp_path / "consumequeue" / "New" / "0" / f"{0:020d}", 0, bytes(4096))
    again = MessageStore(tmp_path, store.config)
    assert again.recovery.scanned_from > 8192
    again.dispatch_to(again.log_end)
    assert len(bodies(again, topic="New")) == 400


def test_messages_are_not_deleted_before_it_is_durable_where_their_queues_go_on(
    tmp_path: Path,
) -> None:
    store = small_store(tmp_path)
    while len(store.log.file_starts) < 3:
        store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    assert store.remembered_offset == 0
    store.checkpoint()
    assert store.remembered_offset == store.log_end


def test_a_damaged_file_of_ends_is_told_and_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trimmed(tmp_path).close()
    overwrite(tmp_path / "queueEnds", 30, b"9")
    again = small_store(tmp_path)
    assert "queueEnds is damaged" in caplog.text
    assert again.queue_bounds("T", 0) == (5, 5)  # its own file still says so


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_that_the_disk_cannot_read_is_made_again_from_the_log(
    tmp_path: Path, clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    for number in range(30):
        for queue_id in (0, 1):
            store.put(message(queue_id=queue_id, body=b"%d" % number), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    trim(store.log, store.queues, store.log.file_starts[1], store.remembered_offset)()
    bounds, whole, others = store.queue_bounds("T", 0), bodies(store), bodies(store, 1)
    store.close(clean=clean)
    folder = tmp_path / "consumequeue" / "T"
    unreadable = {os.stat(path).st_ino for path in (folder / "0").iterdir()}
    real = os.pread

    def pread(fd: int, count: int, position: int) -> bytes:
        if os.fstat(fd).st_ino in unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, count, position)

    monkeypatch.setattr(os, "pread", pread)
    for _ in range(2):
        store = small_store(tmp_path)
        store.dispatch_to(store.log_end)
        assert (store.queue_bounds("T", 0), bodies(store)) == (bounds, whole) and bodies(
            store, 1
        ) == others
        store.close()
        assert sorted(path.name for path in folder.iterdir()) == ["0", "0.unreadable", "1"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("slot", [7, 14])
# a little further, just the next one, impossible, another's
@pytest.mark.parametrize("wrong", [16, 15, 1 << 40, 3])
def test_a_message_whose_header_names_another_place_in_its_queue_takes_nobodys(
    tmp_path: Path, clean: bool, wrong: int, slot: int
) -> None:
    _, ends = killed(tmp_path, checkpoint_at=29)
    small_store(tmp_path).close(clean=clean)
    at = ends[2 * slot - 1]
    overwrite(log_file(tmp_path), at + 20, wrong.to_bytes(8, "big"))
    store = small_store(tmp_path)
    assert store.queue_bounds("T", 0) == (0, 15)
    assert store.queues.get("T", 0).read(slot, 1)[0].physical_offset == at
    assert store.put(message(queue_id=0), NOW_MS).queue_offset == 15
    told = [(bad.place.offset, bad.place.slot, bad.proven) for bad in store.recovery.damaged]
    # what changes nothing is found when it is read
    assert told == ([] if wrong == 3 else [(at, slot, True)])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("slot", [0, 7, 14])
# a queue that is there, one that is not, one that cannot be
@pytest.mark.parametrize("wrong", [1, 2, 1 << 26])
def test_a_message_whose_header_names_another_queue_gets_into_no_other(
    tmp_path: Path, clean: bool, wrong: int, slot: int
) -> None:
    _, ends = killed(tmp_path, checkpoint_at=29)
    small_store(tmp_path).close(clean=clean)
    at = ends[2 * slot - 1] if slot else 0
    overwrite(log_file(tmp_path), at + 12, wrong.to_bytes(4, "big"))
    store = small_store(tmp_path)
    assert sorted(store.queue_ids()) == [("T", 0), ("T", 1)]
    assert [store.queue_bounds("T", queue) for queue in (0, 1)] == [(0, 15), (0, 15)]
    told = [
        (bad.place.offset, bad.place.queue_id, bad.place.slot, bad.proven)
        for bad in store.recovery.damaged
    ]
    assert told == ([] if wrong == 1 else [(at, 0, slot, True)])


def test_a_message_whose_header_names_an_idle_queue_is_not_put_there(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(queue_id=1), NOW_MS)
    ends = [store.put(message(queue_id=0), NOW_MS).end_offset for _ in range(5)]
    store.dispatch_to(store.log_end)
    store.close()
    overwrite(log_file(tmp_path), ends[2] + 12, (1).to_bytes(4, "big"))
    store = small_store(tmp_path)
    assert [store.queue_bounds("T", queue) for queue in (0, 1)] == [(0, 5), (0, 1)]
    assert [(bad.place.queue_id, bad.place.slot) for bad in store.recovery.damaged] == [(0, 3)]


def test_a_full_disk_holds_up_no_start_of_such_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trimmed(tmp_path).close()
    (tmp_path / "queueEnds").unlink()

    def full(_store: MessageStore) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(MessageStore, "checkpoint", full)
    assert small_store(tmp_path).queue_bounds("T", 0) == (5, 5)
    assert "where queues go on is not on the disk yet" in caplog.text


CONFIG = StoreConfig(log_file_bytes=4096, queue_file_bytes=400, message_index=False)
NEVER = 1 << 60


def found(root: Path, *, same_boot: bool) -> dict[str, object]:
    """Everything that opening gives, or leaves in the files."""
    store = MessageStore(root, CONFIG, same_boot=same_boot)
    told = {
        "report": store.recovery,
        "readable": store.dispatched_offset,
        "stored_ms": store.dispatcher.last_store_ms,
    }
    store.close(clean=False)
    return (
        told
        | {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*/*/*"))
            if path.is_file()
        }
        | {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}
    )


def filled(root: Path, sent: list[MessageFields], confirmed: float) -> int:
    """A store that was killed; how long its log is. `confirmed`: that part of it has queue
    entries.
    """
    store = MessageStore(root, CONFIG)
    for number, one in enumerate(sent):
        store.put(one, NOW_MS + number)
    end = store.log_end
    store.dispatch_to(int(end * confirmed))
    store.close(clean=False)
    return end


shares = st.floats(0, 1)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WINDOW_BYTES", 1500)
    monkeypatch.setattr(recovery, "WINDOW_BYTES_MIN", 200)
    monkeypatch.setattr(recovery, "SINGLY", 2)


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sent=st.lists(messages, min_size=20, max_size=60),
    confirmed=shares,
    known=st.none() | st.tuples(shares, shares),
    same_boot=st.booleans(),
    damage=st.lists(
        st.tuples(shares, st.sampled_from([1, 8, 300]), st.sampled_from([0, 1, 0x80, 0xFF])),
        max_size=3,
    ),
    queue_damage=st.lists(st.tuples(shares, shares), max_size=2),
)
def test_whatever_the_files_hold(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    small_windows: None,
    sent: list[MessageFields],
    confirmed: float,
    known: tuple[float, float] | None,
    same_boot: bool,
    damage: list[tuple[float, int, int]],
    queue_damage: list[tuple[float, float]],
) -> None:
    root = tmp_path_factory.mktemp("killed")
    end = filled(root, sent, confirmed)
    if known is not None:
        write_checkpoint(
            root / "checkpoint",
            Checkpoint(NOW_MS, NOW_MS, 0, int(end * known[0]), int(end * known[1])),
        )
    for share, count, value in damage:
        _overwrite(root / "commitlog", int(end * share), bytes([value]) * count)
    queues = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
    for which, where in queue_damage if queues else ():
        path = queues[int(which * (len(queues) - 1))]
        with path.open("r+b") as file:
            file.seek(int(where * 380))
            file.write(bytes(20))
    other = shutil.copytree(root, root.with_name(root.name + "-other"))
    results = []
    for folder, worth_bytes in ((root, 0), (other, NEVER)):
        monkeypatch.setattr(recovery, "WORTH_BYTES", worth_bytes)
        results.append(found(folder, same_boot=same_boot))
        shutil.rmtree(folder)
    assert results[0] == results[1]


def _overwrite(folder: Path, offset: int, data: bytes) -> None:
    path = folder / f"{offset // 4096 * 4096:020d}"
    if path.exists():
        with path.open("r+b") as file:
            file.seek(offset % 4096)
            file.write(data[: 4096 - offset % 4096])


def test_a_long_log_is_read_with_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a short one is not: they take a tenth of a second to load."""
    looked: list[int] = []
    real = recovery._many
    monkeypatch.setattr(
        recovery,
        "_many",
        lambda log, read, *others: looked.append(read.walk.end) or real(log, read, *others),
    )
    monkeypatch.setattr(recovery, "WORTH_BYTES", 3000)
    monkeypatch.setattr(recovery, "WINDOW_BYTES_MIN", 200)
    filled(tmp_path / "long", [message()] * 40, 1.0)
    filled(tmp_path / "short", [message()] * 20, 1.0)
    assert found(tmp_path / "short", same_boot=True)["readable"] and not looked
    assert found(tmp_path / "long", same_boot=True)["report"].messages == 40 and len(looked) < 40  # type: ignore[attr-defined]
    assert looked
