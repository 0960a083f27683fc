"""The replica of a process: how its last run is judged, and that a folder is used once."""

import os
import shutil
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.ha.epoch_file import EpochFileError
from brokers.ha.epochs import EpochHistory
from brokers.process.replica import LocalReplica
from brokers.replica.effects import Effect
from brokers.replica.hooks import ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.store.files.errors import LogError
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.recovery.boot import machine_boot_id
from brokers.store.recovery.checkpoint import Checkpoint, write_checkpoint
from brokers.store.store import MessageStore, StoreConfig
from events.outcomes import LABEL_AT_RISK
from tests.support.brokers import broker_config, until
from tests.support.control_history import seen
from tests.support.folded_set import IDENTITY, FoldedSet
from tests.support.small_disk import small_disk

HOST = host_bytes("127.0.0.1", 1)


def opened(folder: Path) -> LocalReplica:
    return LocalReplica(broker_config(folder, ["127.0.0.1:1"]))


def test_a_fresh_replica_is_clean_and_promises_nothing(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    assert replica.clean() and not replica.leads() and replica.core is None
    assert replica.position().epoch == -1 and replica.write_refusal() is not None
    core = replica.make(1)
    assert core.clean and core.log_end == 0 and not core.is_master
    replica.close()


def test_an_orderly_end_is_noted_and_a_second_use_of_the_folder_refused(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1)
    with pytest.raises(LogError):
        opened(tmp_path)
    replica.close()
    again = opened(tmp_path)
    assert (
        again.boot.reason == "flushed_exit"
        and again.store.log_end > 0
        and not again.store.recovery.abnormal
    )
    again.close()


def test_a_failed_disk_makes_the_next_start_unclean(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    replica.storage_failed("planted")
    replica.close()
    again = opened(tmp_path)
    assert not again.clean() and again.boot.reason == "io_error"
    again.close()


def test_bytes_without_a_history_cannot_be_vouched_for(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1)
    replica.close()
    again = opened(tmp_path)
    assert not again.make(1).clean
    again.close()


def test_a_torn_epoch_file_refuses_the_start_and_frees_the_folder(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (tmp_path / name).write_text("torn")
    with pytest.raises(EpochFileError):
        opened(tmp_path)
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (tmp_path / name).unlink()
    opened(tmp_path).close()


async def test_an_error_of_its_own_ends_the_process_rather_than_a_silent_mastership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = opened(tmp_path)
    failed = replica.failed()

    async def unused(*_: object) -> None: ...

    core = replica.make(1)
    replica.run(
        core,
        ReplicaHooks(
            unused, unused, lambda elect: None, lambda offset: None, lambda kind, fields: None
        ),
    )
    assert replica.driver is not None

    def stumble(notice: RoleNotice, now_ms: int, **_: object) -> list[Effect]:
        raise AssertionError("planted")

    monkeypatch.setattr(core, "on_role_notice", stumble)
    with pytest.raises(AssertionError):
        replica.notice(RoleNotice(2, master_epoch=1))
    assert replica.write_refusal() == "stopped"
    with pytest.raises(AssertionError, match="planted"):
        await failed
    await replica.driver.stop()
    replica.close()


async def test_a_new_epoch_is_told_with_the_time_of_the_last_message_before_it(
    tmp_path: Path,
) -> None:
    replica, told = opened(tmp_path), []

    async def unused(*_: object) -> None:
        return None

    def report(kind: str, fields: dict[str, object]) -> None:
        told.extend([fields["last_store_ms"]] if kind == "EpochAppended" else [])

    replica.run(
        replica.make(1),
        ReplicaHooks(unused, unused, lambda elect: None, lambda offset: None, report),
    )
    for epoch, dispatched in ((1, False), (2, False), (3, True)):
        replica.notice(RoleNotice(1, master_epoch=epoch, members=(1,), set_epoch=epoch))
        replica.log_grew(
            replica.store.put(
                MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 70 + epoch
            ).end_offset
        )
        if dispatched:
            replica.store.dispatch_to(replica.store.log_end)
    replica.notice(RoleNotice(1, master_epoch=4, members=(1,), set_epoch=4))
    assert told == [-1, 71, 72, 73]
    await replica.driver.stop()
    replica.close()


@pytest.mark.parametrize("damage", ["removed", "cut off"])
def test_a_log_that_lost_what_was_durable_is_unclean_however_orderly_the_last_end(
    tmp_path: Path, damage: str
) -> None:
    end, log_file = three_durable_messages(tmp_path)
    if damage == "removed":
        log_file.unlink()
    else:
        data = log_file.read_bytes()
        log_file.write_bytes(data[: end // 3] + bytes(len(data) - end // 3))
    for _ in range(2):  # a kill in between does not wash it off
        again = opened(tmp_path)
        assert not again.clean() and not again.make(1).clean
        again.store.checkpoint()
        again.store.close(clean=False)


def test_a_record_that_was_damaged_between_sound_ones_makes_no_start_unclean(
    tmp_path: Path,
) -> None:
    """It is told, fetched from a member and not served before: nobody else's bytes are needed in
    its place.
    """
    end, log_file = three_durable_messages(tmp_path)
    data = bytearray(log_file.read_bytes())
    data[end // 2] ^= 1
    log_file.write_bytes(data)
    again = opened(tmp_path)
    assert (
        again.clean()
        and again.loss is None
        and again.store.log_end == end
        and len(again.store.recovery.damaged) == 1
    )
    again.close()


def three_durable_messages(folder: Path) -> tuple[int, Path]:
    """The end of the log behind them, and its one file."""
    replica = opened(folder)
    for _ in range(3):
        end = replica.store.put(MessageFields("T", 0, b"x" * 100, b"", 1, HOST, HOST), 1).end_offset
    replica.store.dispatch_to(end)
    replica.close()
    (log_file,) = (folder / "commitlog").iterdir()
    return end, log_file


def test_an_unclean_start_trusts_what_was_durable_and_no_more_after_a_second_one(
    tmp_path: Path,
) -> None:
    replica = opened(tmp_path)
    message = MessageFields("T", 0, b"x" * 100, b"", 1, HOST, HOST)
    replica.store.put(message, 1)
    replica.store.dispatch_to(replica.store.log_end)
    replica.store.checkpoint()
    durable = replica.store.log_end
    replica.store.put(message, 1)
    replica.storage_failed("planted")
    replica.store.close(clean=False)
    again = opened(tmp_path)
    assert not again.clean() and again.store.log_end > durable
    assert again.boot.trusted_end == durable == again.make(1).log.trusted_end
    again.store.dispatch_to(again.store.log_end)
    again.store.checkpoint()  # flushed now, torn or not
    again.storage_failed("planted")
    again.store.close(clean=False)
    third = opened(tmp_path)
    assert third.boot.trusted_end == durable
    third.close()


def test_a_full_disk_takes_the_entry_of_a_mastership_and_leaves_the_end_of_a_run_clean(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path, 32 << 20) as disk:
        replica = LocalReplica(
            broker_config(disk.root, ["127.0.0.1:1"], commit_log_file_bytes=1 << 20)
        )
        end = replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
        disk.fill()
        replica._epoch_file.save(EpochHistory.of((1, 0)), 1)
        disk.fill()
        replica.close()
        disk.free()
        again = LocalReplica(
            broker_config(disk.root, ["127.0.0.1:1"], commit_log_file_bytes=1 << 20)
        )
        assert (
            again.clean() and again.store.log_end == end and again.epochs == EpochHistory.of((1, 0))
        )
        assert again.boot.reason == "same_boot"
        again.close()


def used_by_java(folder: Path, *, writes: int, orderly: bool) -> int:
    """What a Java broker leaves: it knows nothing of our marker, nor of what stands behind its own
    checkpoint fields.
    """
    store = MessageStore(
        folder, StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=20_000), same_boot=True
    )
    for number in range(writes):
        store.put(MessageFields("T", 0, b"java", b"", 1, HOST, HOST), 10_000 + number)
    end = store.log_end
    store.dispatch_to(end)
    store.flush()
    before = (
        (folder / "checkpoint").read_bytes() if (folder / "checkpoint").exists() else bytes(4096)
    )
    store.close(clean=orderly)
    if orderly:
        java = struct.pack(">5q", 10_000 + writes, 10_000 + writes, 0, 0, end)
        (folder / "checkpoint").write_bytes(java + before[40:])
    return end


def test_a_folder_of_a_java_broker_is_taken_over_as_clean_as_that_one_left_it(
    tmp_path: Path,
) -> None:
    end = used_by_java(tmp_path, writes=3, orderly=True)
    replica = opened(tmp_path)
    assert (replica.clean(), replica.boot.reason) == (True, "foreign_flushed_exit")
    assert replica.store.log_end == replica.store.confirm_offset == end
    assert replica.store.queue_bounds("T", 0) == (0, 3)
    replica.close()


def test_a_java_broker_that_lost_power_after_our_orderly_end_does_not_count_as_clean(
    tmp_path: Path,
) -> None:
    opened(tmp_path).close()
    used_by_java(tmp_path, writes=3, orderly=False)
    marker = tmp_path / "runMarker"
    marker.write_text(marker.read_text().replace(machine_boot_id(), "an earlier boot"))
    os.utime(tmp_path / "abort", (1, 1))
    replica = opened(tmp_path)
    assert (replica.clean(), replica.boot.reason) == (False, "foreign_other_boot")
    replica.close()


def test_a_log_that_grew_while_nobody_says_to_have_written_is_not_trusted(tmp_path: Path) -> None:
    opened(tmp_path).close()
    known = (tmp_path / "checkpoint").read_bytes() if (tmp_path / "checkpoint").exists() else None
    used_by_java(tmp_path, writes=3, orderly=True)
    if known is None:
        (tmp_path / "checkpoint").unlink()
    else:
        (tmp_path / "checkpoint").write_bytes(known)
    replica = opened(tmp_path)
    assert (replica.clean(), replica.boot.reason) == (False, "log_was_changed")
    replica.close()


async def test_what_a_send_may_wait_for_is_on_the_disk_when_it_is_told(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    end = replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    assert replica.store.log.flushed_offset < end
    assert await replica.flushed(end) is Flushed.DURABLE and replica.store.log.flushed_offset == end
    replica.close()


async def test_a_disk_that_cannot_flush_ends_the_replica(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    failed = replica.failed()
    end = replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    replica.store.log.io_error = "planted"
    assert await replica.flushed(end) is Flushed.FAILED
    with pytest.raises(LogError, match="planted"):
        await failed
    replica.close()


async def test_a_promotion_flushes_what_it_took_over_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default settings: nobody waits for the disk."""
    replica, slow = opened(tmp_path), threading.Event()
    flush = replica.store.flush
    monkeypatch.setattr(replica.store, "flush", lambda: slow.wait(20) and flush())

    async def unused(*_: object) -> None:
        return None

    hooks = ReplicaHooks(
        unused, unused, lambda elect: None, lambda offset: None, lambda kind, fields: None
    )
    replica.run(replica.make(1), hooks)
    replica.notice(RoleNotice(1, master_epoch=1, members=(1,), set_epoch=1))
    end = replica.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    replica.log_grew(end)
    replica.notice(RoleNotice(1, master_epoch=2, members=(1,), set_epoch=2))
    assert replica.leads() and replica.store.log.flushed_offset < end, (
        "it leads before the flush is over"
    )
    slow.set()
    await until(lambda: replica.store.log.flushed_offset >= end, "the flush is over")
    assert replica.driver is not None
    await replica.driver.stop()
    replica.close()


# -- trust after a loss (S15): real stores and links, the controller is the fold -------------------


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[FoldedSet]:
    """1 leads, 2 is a member, both hold ten messages that are confirmed."""
    among = FoldedSet(tmp_path, 1, 2)
    among.start(1)
    among.elect(asked_by=1)
    among.start(2)
    await until(lambda: among.history.set.sync_state_set == (1, 2), "both are members")
    await confirmed(among, 1, among.put(1, 10))
    yield among
    await among.stop_all()


async def confirmed(among: FoldedSet, broker_id: int, end: int) -> None:
    core = among.replicas[broker_id].core
    assert core is not None
    await until(lambda: core.confirm_offset >= end, f"everything below {end} is confirmed")


@pytest.mark.parametrize(
    "orderly", [True, False], ids=["of a stopped broker", "of a running broker"]
)
async def test_a_restored_backup_is_noticed_by_the_master_and_copied_anew(
    pair: FoldedSet, orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The start counts as clean: nothing in the folder tells of what came after the copy."""
    pair.replicas[2].store.checkpoint()
    if orderly:
        await pair.stop(2)
    copy = pair.copy_of(2)
    if orderly:
        pair.start(2)
        await until(lambda: pair.history.set.sync_state_set == (1, 2), "2 is back")
    end = pair.put(1, 1_000)
    await confirmed(pair, 1, end)
    await pair.stop(2)
    pair.put_back(2, copy)

    back = pair.start(2)
    assert (
        back.boot.clean
        and back.boot.reason == ("flushed_exit" if orderly else "same_boot")
        and back.store.log_end < end
    )
    await until(pair.losses, "the master notices it")
    (loss,) = pair.losses()
    assert f"broker 2 lost data: its log ends at {loss['claimed_offset']}" in caplog.text
    assert (
        loss["lost_broker_id"] == 2
        and loss["acknowledged_offset"] == end
        and int(str(loss["claimed_offset"])) < end
    )
    await until(
        lambda: back.store.log_end == end and pair.history.set.sync_state_set == (1, 2),
        "2 has copied everything again",
    )
    assert pair.put(1, 1) > end
    # Had 1 died before that: 2 counts as unclean, so nobody is elected without risk.
    then = pair.as_of(
        next(outcome for effect, outcome in pair.decided if effect.lost_members == (2,))
    )
    assert then.set.sync_state_set == (1,) and not then.set.replica(2).clean
    gone, old = (
        seen(1, alive=False),
        seen(2, offset=int(str(loss["claimed_offset"])), incarnation=back.boot.incarnation),
    )
    outcome = then.elect(-1, gone, old)
    assert not outcome.accepted and then.set.master_broker_id is None


async def test_a_replica_that_lost_its_power_before_the_first_election_leads_at_risk(
    tmp_path: Path,
) -> None:
    among = FoldedSet(tmp_path, 1)
    among.start(1)
    await among.stop(1, orderly=False)
    marker = among.folder(1) / "runMarker"
    marker.write_text(marker.read_text("ascii").replace(machine_boot_id(), "another"), "ascii")
    replica = among.start(1)
    assert not replica.boot.clean
    outcome = among.elect(asked_by=1)
    assert outcome.labels == ("AT_RISK",)
    core = replica.core
    assert core is not None
    await until(lambda: core.is_master, "it leads")
    await among.stop_all()


@pytest.mark.parametrize("orderly", [True, False])
async def test_a_process_that_ends_within_a_record_it_is_sent_has_lost_nothing(
    tmp_path: Path, orderly: bool
) -> None:
    """What is acknowledged and confirmed of it is cut at the next start: neither checkpoint nor
    heartbeats bind that one.
    """
    among = FoldedSet(
        tmp_path,
        1,
        2,
        commit_log_file_bytes=1 << 22,
        ha_flow_control=True,
        ha_transfer_bytes_per_s=400_000,
    )
    among.start(1)
    among.elect(asked_by=1)
    among.start(2)
    await until(lambda: among.history.set.sync_state_set == (1, 2), "both are members")
    end = among.put(1, 10)
    await confirmed(among, 2, end)
    large = MessageFields("T", 0, b"x" * 3_000_000, b"", 1, HOST, HOST)
    among.replicas[1].log_grew(among.replicas[1].store.put(large, 1).end_offset)
    await confirmed(among, 2, end + 1)
    assert among.replicas[2].store.log_end < among.replicas[1].store.log_end
    # what is decided keeps what members showed
    assert among.history.alter((1,), *among.evidence()).accepted
    assert among.history.alter((1, 2), *among.evidence()).accepted
    among.replicas[2].store.checkpoint()
    await among.stop(2, orderly=orderly)

    back = among.start(2)
    assert back.boot.clean and back.store.recovery.end_offset == end
    assert among.history.set.sync_state_set == (1, 2) and among.history.set.replica(2).clean
    await among.stop_all()


async def test_a_master_that_comes_back_empty_but_for_its_identity_is_not_preferred(
    pair: FoldedSet,
) -> None:
    """Its disk was replaced, `brokerIdentity` put back, and its electionPriority is the better one
    (A2).
    """
    end = pair.put(1, 10)
    await confirmed(pair, 1, end)
    await pair.stop(1, orderly=False)
    shutil.rmtree(pair.folder(1))
    pair.folder(1).mkdir()
    (pair.folder(1) / IDENTITY).write_text("c#b#1", "ascii")
    pair.priorities[1] = 1
    again = pair.start(1)
    assert (again.boot.clean, again.boot.reason) == (False, "identity_without_marker")
    outcome = pair.elect()
    assert pair.history.set.master_broker_id == 2 and LABEL_AT_RISK not in outcome.labels
    assert pair.replicas[2].store.log_end == end
    await until(
        lambda: again.store.log_end == end and pair.history.set.sync_state_set == (1, 2),
        "it has copied everything",
    )


# -- what this id held before binds it (S15) -------------------------------------------------------


def written(folder: Path, *, epochs: int = 1, count: int = 5) -> LocalReplica:
    """A log of some epochs, confirmed and durable, that ended in order; its files are the
    test's.
    """
    replica = opened(folder)
    history = replica.epochs
    for _ in range(epochs):
        history = history.append(history.newest_epoch + 1 if history else 1, replica.store.log_end)
        for _ in range(count):
            replica.store.put(MessageFields("T", 0, b"x" * 100, b"", 1, HOST, HOST), 1)
    replica._epochs = history
    replica._epoch_file.save(history, history.newest_epoch)
    replica.store.dispatch_to(replica.store.log_end)
    replica.close()
    return replica


def lose(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_log_that_is_gone_with_its_checkpoint_is_noticed_by_what_is_left(tmp_path: Path) -> None:
    """Run marker, identity and epochs are there: all that was looked at so far calls the start
    clean.
    """
    end = written(tmp_path).store.log_end
    lose(tmp_path, "commitlog", "consumequeue", "checkpoint")
    again = opened(tmp_path)
    assert (again.boot.reason, again.make(1).clean) == ("log_went_back", False)
    assert again.loss is not None and again.loss["acknowledged_offset"] == end > 0
    again.store.close(clean=False)  # a kill does not wash it off
    third = opened(tmp_path)
    assert not third.clean()
    third.close()


def test_an_older_log_and_checkpoint_under_a_newer_identity_are_noticed_and_told(
    tmp_path: Path,
) -> None:
    written(tmp_path)
    shutil.copytree(tmp_path / "commitlog", tmp_path / "older-log")
    shutil.copytree(tmp_path / "consumequeue", tmp_path / "older-queues")
    shutil.copy(tmp_path / "checkpoint", tmp_path / "older-checkpoint")
    # opened and closed once more: nothing is told
    end = written(tmp_path, epochs=0, count=0).store.log_end
    newer = opened(tmp_path)
    assert newer.clean() and newer.loss is None
    for _ in range(50):
        newer.store.put(MessageFields("T", 0, b"x" * 100, b"", 1, HOST, HOST), 1)
    newer.store.dispatch_to(newer.store.log_end)
    newer.close()
    lose(tmp_path, "commitlog", "consumequeue", "checkpoint")
    (tmp_path / "older-log").rename(tmp_path / "commitlog")
    (tmp_path / "older-queues").rename(tmp_path / "consumequeue")
    (tmp_path / "older-checkpoint").rename(tmp_path / "checkpoint")
    again = opened(tmp_path)
    assert again.store.log_end == end and (again.clean(), again.boot.reason) == (
        False,
        "log_went_back",
    )
    assert again.loss == {
        "claimed_epoch": 1,
        "claimed_offset": end,
        "acknowledged_offset": newer.store.log_end,
        "why": "log_went_back",
    }
    again.close()
    told_once = opened(tmp_path)
    assert told_once.loss is None and not told_once.clean()
    told_once.close()


def test_an_older_epoch_file_is_noticed(tmp_path: Path) -> None:
    written(tmp_path)
    older = (tmp_path / "epochFileCheckpoint").read_bytes()
    written(tmp_path)
    lose(tmp_path, *(one.name for one in tmp_path.glob("epochFileCheckpoint*")))
    (tmp_path / "epochFileCheckpoint").write_bytes(older)
    again = opened(tmp_path)
    assert (again.clean(), again.boot.reason) == (False, "epochs_went_back")
    again.close()


def test_a_cut_that_a_master_asked_for_is_no_loss_wherever_the_process_dies(tmp_path: Path) -> None:
    written(tmp_path)
    replica = opened(tmp_path)
    half = replica.store.log_end // 5 * 2
    replica.store.truncate(half)
    replica.store.close(clean=False)
    again = opened(tmp_path)
    assert again.store.log_end == half and again.loss is None and again.boot.reason == "same_boot"
    again.close()


def test_a_log_that_a_java_broker_cut_is_none_of_ours(tmp_path: Path) -> None:
    """It knows nothing of what we keep; its checkpoint shows that it was here."""
    end = written(tmp_path).store.log_end
    lose(tmp_path, "commitlog", "consumequeue", "checkpoint")
    write_checkpoint(tmp_path / "checkpoint", Checkpoint(1, 1, 1, None, 0))
    again = opened(tmp_path)
    assert again.loss is None and end > 0
    again.close()
