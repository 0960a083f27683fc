"""Identity files: their text, their durability, and that torn ones are never guessed around."""

from pathlib import Path

import pytest

from brokers.membership.identity_file import IdentityFileError, IdentityFiles
from brokers.membership.registration import Identity, TempIdentity


def test_the_identity_is_one_line_as_rocketmq_writes_it(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.write_identity(Identity("c", "b", 3))
    assert (tmp_path / "brokerIdentity").read_text() == "c#b#3"
    assert files.read_identity() == Identity("c", "b", 3)


def test_the_temp_file_carries_the_check_code_and_can_be_deleted_twice(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.write_temp(TempIdentity("c", "b", 3, "h:1;99"))
    assert (tmp_path / "brokerIdentity-temp").read_text() == "c#b#3#h:1;99"
    assert files.read_temp() == TempIdentity("c", "b", 3, "h:1;99")
    files.delete_temp()
    files.delete_temp()
    assert files.read_temp() is None


def test_missing_files_are_no_identity(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path / "absent")
    assert files.read_identity() is None and files.read_temp() is None
    files.delete_temp()


def test_the_check_code_is_a_fourth_field_and_a_file_without_it_stays_valid(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.write_identity(TempIdentity("c", "b", 3, "h:1;99;ab").granted())
    assert (tmp_path / "brokerIdentity").read_text() == "c#b#3#h:1;99;ab"
    assert files.read_identity() == Identity("c", "b", 3, "h:1;99;ab")
    (tmp_path / "brokerIdentity").write_text("c#b#3\n")
    assert files.read_identity() == Identity("c", "b", 3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"c#b",
        b"c#b#0",
        b"c#b#x",
        b"c#b#1#2",
        b"c#b#1#",
        b"c#b#1#h:1;2#3",
        b"\xff#b#1",
        b"c##1",
        b"c#b#" + b"1" * 5000,
    ],
)
def test_a_torn_identity_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "brokerIdentity").write_bytes(content)
    with pytest.raises(IdentityFileError):
        IdentityFiles(tmp_path).read_identity()


def test_a_torn_temp_file_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity-temp").write_bytes(b"c#b#")
    assert IdentityFiles(tmp_path).read_temp() is None


def test_a_name_that_would_tear_the_line_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        IdentityFiles(tmp_path).write_identity(Identity("c#d", "b", 1))


def test_a_second_write_leaves_one_file(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path)
    files.write_identity(Identity("c", "b", 1))
    files.write_identity(Identity("c", "b", 2))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("brokerIdentity", b"c#b#2")
    ]
