"""What a replica knows of its log, and the order of its effects."""

from __future__ import annotations

from brokers.ha.epochs import EpochEntry, EpochHistory
from brokers.replica import effects as fx
from brokers.replica.replica_log import ReplicaLog

H = EpochHistory.of


def log(
    epochs: EpochHistory = H((1, 0), (2, 100)), end: int = 150, confirm: int = 120, **kwargs: int
) -> ReplicaLog:
    values = {"min_offset": 0, "epoch_seen": 2, **kwargs}
    return ReplicaLog(epochs=epochs, end_offset=end, confirm_offset=confirm, **values)


def kinds(effects: list) -> list:
    return [
        item.kind if isinstance(item, fx.ReportEvent) else type(item).__name__ for item in effects
    ]


def test_a_label_whose_bytes_a_crash_took_is_dropped() -> None:
    assert log(end=80, confirm=90).epochs == H((1, 0))
    assert log(end=80, confirm=90).confirm_offset == 80
    assert log(end=100).epochs == H((1, 0), (2, 100))


def test_the_epoch_seen_covers_the_entries_and_only_grows() -> None:
    assert log(epoch_seen=0).epoch_seen == 2
    one = log(epoch_seen=5)
    assert one.see_epoch(5) == []
    assert one.see_epoch(7) == [fx.WriteEpochs(one.epochs.entries, 7, none_of_seen=True)]
    assert one.epoch_seen == 7


def test_a_mastership_begins_at_the_end_of_the_log() -> None:
    one = log()
    (write, event) = one.begin_epoch(6)
    assert write.entries[-1] == EpochEntry(6, 150) and write.epoch_seen == 6
    assert event.fields == {"epoch": 6, "start_offset": 150, "last_store_ms": -1}


def test_a_mastership_without_a_byte_is_superseded() -> None:
    one = log()
    one.begin_epoch(6)
    one.begin_epoch(7)
    assert one.epochs == H((1, 0), (2, 100), (7, 150))


def test_a_taught_history_is_written_once() -> None:
    one = log()
    assert one.learn_epochs(one.epochs) == []
    assert kinds(one.learn_epochs(H((1, 0), (3, 100)))) == ["WriteEpochs", "EpochAppended"]
    assert kinds(one.learn_epochs(H((1, 0)))) == ["WriteEpochs"]


def test_raw_bytes_move_the_end_and_an_empty_log_begins_anywhere() -> None:
    one = log(H(), 0, 0)
    assert one.append_raw(2000, b"abc") == [fx.AppendRaw(2000, b"abc")]
    assert (one.min_offset, one.end_offset) == (2000, 2003)


def test_a_cut_takes_labels_and_confirm_offset_with_it() -> None:
    one = log()
    assert one.was_cut(150, "nothing") == []
    effects = one.was_cut(90, "diverged")
    assert kinds(effects) == ["WriteEpochs", "LogTruncated"]
    assert effects[1].fields == {
        "from_offset": 150,
        "to_offset": 90,
        "epoch": 1,
        "reason": "diverged",
    }
    assert (one.confirm_offset, one.epochs) == (90, H((1, 0)))
    assert kinds(one.was_cut(0, "all")) == ["WriteEpochs", "LogTruncated"]
    assert not one.epochs


def test_the_confirm_offset_grows_up_to_the_end_and_tells_a_crossed_epoch() -> None:
    one = log(confirm=90)
    assert one.move_confirm(80) == []
    assert kinds(one.move_confirm(100)) == ["ConfirmMoved"]
    assert kinds(one.move_confirm(101)) == ["ConfirmMoved", "ConfirmCrossedEpoch"]
    assert one.move_confirm(10**9) == [fx.ConfirmMoved(150)]
    assert one.view().confirm_offset == 150


def test_deleted_files_take_their_epochs_with_them() -> None:
    one = log()
    assert one.trimmed(50) == []
    (write,) = one.trimmed(120)
    assert write.entries == (EpochEntry(2, 100),) and one.min_offset == 120


def test_torn_bytes_are_trusted_again_once_they_are_cut_or_lead() -> None:
    one = log(trusted_end=110)
    one.was_cut(130, "test")
    assert one.trusted_end == 110
    one.was_cut(110, "test")
    assert one.trusted_end is None
    leading = log(trusted_end=110)
    leading.begin_epoch(6)
    assert leading.trusted_end is None


def test_a_log_that_ends_where_trust_ends_has_nothing_torn() -> None:
    assert log(trusted_end=150).trusted_end is None
    assert log(trusted_end=149).trusted_end == 149


def test_bytes_that_found_no_room_take_their_label_along_without_the_word_of_a_cut() -> None:
    one = log()
    assert kinds(one.ends_at(90)) == ["WriteEpochs"] and one.epochs == H((1, 0))
    assert (one.end_offset, one.confirm_offset) == (90, 90)
    assert one.ends_at(90) == []


def test_whether_bytes_of_the_epoch_seen_can_be_here_is_kept() -> None:
    one = log(epoch_seen=0)
    one.see_epoch(7)
    assert one.agreed() == [fx.WriteEpochs(one.epochs.entries, 7, none_of_seen=False)]
    assert one.agreed() == []
    one.see_epoch(8, none_here=False)  # the same master goes on
    assert not one.none_of_seen
    one.see_epoch(9)
    one.begin_epoch(10)
    assert not one.none_of_seen
    other = log(epoch_seen=0)
    other.see_epoch(9)
    other.learn_epochs(H((1, 0), (2, 100), (9, other.end_offset)))
    assert not other.none_of_seen
