"""The epoch file: RocketMQ's text, durable, refused when torn."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epoch_file import EpochFile, EpochFileError, format_epochs, parse_epochs
from brokers.ha.epochs import EpochHistory

GOLDEN = Path(__file__).parents[3] / "golden" / "ha"
H = EpochHistory.of


@pytest.mark.parametrize(
    ("epochs", "crc"),
    [
        (H((1, 0), (3, 441)), 2007284247),
        (H((1, 0), (3, 441), (4, 882)), 857481013),
        (H((1, 0), (5, 147)), 1081675454),
    ],
)
def test_the_text_is_that_of_the_reference(epochs: EpochHistory, crc: int) -> None:
    text = format_epochs(epochs)
    assert text.split("\n")[:2] == [str(len(epochs.entries)), str(crc)]
    assert parse_epochs(text) == epochs


@pytest.mark.parametrize(
    ("name", "epochs"),
    [
        ("g-0__epochFileCheckpoint", H((1, 0), (2, 6002))),
        ("epoch-collision-master__epochFileCheckpoint", H((1, 0), (2, 220), (3, 448))),
        ("epoch-collision-returned__epochFileCheckpoint", H((1, 0), (2, 220), (3, 448))),
    ],
)
def test_files_of_real_brokers_read_and_write_byte_equal(name: str, epochs: EpochHistory) -> None:
    text = (GOLDEN / name).read_text()
    assert parse_epochs(text) == epochs
    assert format_epochs(epochs) == text


def test_a_checksum_of_zero_is_not_verified() -> None:
    assert parse_epochs("1\n0\n4-100\n") == H((4, 100))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1\n0",
        "2\n0\n1-0\n",
        "1\n0\n1\n",
        "1\n0\n1-0-0\n",
        "1\n0\n-1-0\n",
        "1\n5\n1-0\n",
        "2\n0\n2-0\n1-5\n",
        "1\n0\n1-9999999999999999999\n",
        "x\n0\n1-0\n",
        "1\n0\n1-٣\n",
    ],
)
def test_a_text_that_was_not_written_so_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_epochs(text)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_epochs(text)
    except ValueError:
        pass


def test_a_fresh_replica_has_no_history(tmp_path: Path) -> None:
    assert EpochFile(tmp_path / "epochFileCheckpoint").load() == (H(), 0)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "epochFileCheckpoint"
    EpochFile(path).save(H((1, 0), (4, 100)), 4)
    assert EpochFile(path).load() == (H((1, 0), (4, 100)), 4)
    assert path.read_text() == (tmp_path / "epochFileCheckpoint.bak").read_text()


def test_an_epoch_only_heard_of_survives_without_an_entry(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "e")
    file.save(H((1, 0)), 6)
    assert EpochFile(tmp_path / "e").load() == (H((1, 0)), 6)
    again = EpochFile(tmp_path / "e")
    again.load()
    again.save(H((1, 0), (7, 10)), 7)
    again.save(H((1, 0)), 7)  # the entry is cut away; that epoch 7 was seen is not
    assert EpochFile(tmp_path / "e").load() == (H((1, 0)), 7)


def test_that_no_byte_is_of_the_epoch_seen_survives_until_it_is_taken_back(tmp_path: Path) -> None:
    def found() -> tuple[int, bool]:
        file = EpochFile(tmp_path / "e")
        return file.load()[1], file.none_of_seen

    file = EpochFile(tmp_path / "e")
    file.save(H((1, 0)), 6, none_of_seen=True)
    assert found() == (6, True)
    file.save(H((1, 0)), 6, none_of_seen=False)
    assert found() == (6, False)
    file.save(H((1, 0)), 7, none_of_seen=True)
    file.save(H((1, 0), (7, 10)), 7, none_of_seen=False)
    file.save(H((1, 0)), 7, none_of_seen=False)  # its entry vouched for it, and is cut away
    assert found() == (7, False)


def test_an_empty_history_is_not_written(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "e")
    file.save(H((1, 0)), 1)
    file.save(H(), 1)
    assert EpochFile(tmp_path / "e").load() == (H((1, 0)), 1)


@pytest.mark.parametrize("damage", [b"", b"1\n17\n1-0\n", b"\xff\xfe", b"1\n0\n1-0\n" * 200_000])
def test_a_torn_file_falls_back_to_its_copy_and_says_so(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "e"
    EpochFile(path).save(H((1, 0), (2, 50)), 2)
    path.write_bytes(damage)
    file = EpochFile(path)
    assert file.load() == (H((1, 0), (2, 50)), 2)
    assert file.from_backup


def test_a_missing_file_beside_a_copy_counts_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "e"
    EpochFile(path).save(H((1, 0)), 1)
    path.unlink()
    file = EpochFile(path)
    assert file.load() == (H((1, 0)), 1) and file.from_backup


def test_two_torn_files_are_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "e"
    EpochFile(path).save(H((1, 0)), 1)
    path.write_bytes(b"1\n")
    (tmp_path / "e.bak").write_bytes(b"")
    with pytest.raises(EpochFileError, match="start this replica empty"):
        EpochFile(path).load()


@pytest.mark.parametrize(
    "damage", [b"", b"6", b"6 1\n", b"x y\n", b"6 older\n", b"6 older 1\n", b"6 newer 1\n"]
)
def test_a_torn_record_of_the_epoch_seen_is_refused(tmp_path: Path, damage: bytes) -> None:
    EpochFile(tmp_path / "e").save(H((1, 0)), 6)
    (tmp_path / "eSeen").write_bytes(damage)
    with pytest.raises(EpochFileError):
        EpochFile(tmp_path / "e").load()


def test_nothing_is_rewritten_when_nothing_changed(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "e")
    file.save(H((1, 0)), 1)
    inode = (tmp_path / "e").stat().st_ino
    file.save(H((1, 0)), 1)
    assert (tmp_path / "e").stat().st_ino == inode
    assert not (tmp_path / "eSeen").exists()


def test_an_impossible_epoch_an_earlier_release_wrote_is_set_aside_and_the_replica_starts(
    tmp_path: Path,
) -> None:
    path, epoch = tmp_path / "e", 2**63 - 1
    EpochFile(path).save(H((1, 0)), epoch)
    assert EpochFile(path).load() == (H((1, 0)), 1)
    assert str(epoch) in (tmp_path / "eSeen.setAside").read_text()
    assert EpochFile(path).load() == (H((1, 0)), 1)
