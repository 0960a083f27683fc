"""Term and vote, checkpoint and debt as files: durable, bounded, and what Java may have left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from brokers.majority.entry import EMPTY, Place
from brokers.majority.log_port import TermAndVote
from brokers.majority.store.marks import FILE_BYTES_MAX, Marks
from brokers.majority.store.small_files import SmallFiles, TermFile
from brokers.store.files.disk_space import SPARE_NAME, Spare
from brokers.store.files.errors import LogError

TEXT = "currTerm=5\nvoteLeader=n1\n"


def opened(root: Path, fresh: bool = False) -> TermFile:
    return TermFile(root, Spare(root), fresh=fresh)


def test_a_new_member_has_promised_nothing(tmp_path: Path) -> None:
    assert opened(tmp_path, fresh=True).state == TermAndVote()


def test_a_promise_outlives_the_process(tmp_path: Path) -> None:
    terms = opened(tmp_path, fresh=True)
    for state in (TermAndVote(3), TermAndVote(3, "n1"), TermAndVote(4, "n0")):
        terms.save(state)
        assert opened(tmp_path).state == state == terms.state
    assert (tmp_path / "currterm").read_text() == "currTerm=4\nvoteLeader=n0\n"


def test_a_promise_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write, sync, rename, sync of the folder: after a crash it is the old or the new one."""
    done: list[str] = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("sync"), real_sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda *a: (done.append("rename"), real_replace(*a))[1])
    opened(tmp_path, fresh=True).save(TermAndVote(1, "n0"))
    assert done == ["sync", "rename", "sync"]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (TermAndVote(4, "n1"), "below"),
        (TermAndVote(5, "n2"), "has the vote"),
        (TermAndVote(5), "has the vote"),
        (TermAndVote(6, "a\nb"), "no member id"),
    ],
)
def test_no_promise_is_taken_back(tmp_path: Path, state: TermAndVote, why: str) -> None:
    (tmp_path / "currterm").write_text(TEXT)
    terms = opened(tmp_path)
    with pytest.raises(ValueError, match=why):
        terms.save(state)
    assert opened(tmp_path).state == TermAndVote(5, "n1")


def test_a_disk_that_refuses_leaves_the_old_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "currterm").write_text(TEXT)
    terms = opened(tmp_path)

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="broken"):
            terms.save(TermAndVote(6))
    assert terms.state == opened(tmp_path).state == TermAndVote(5, "n1")


def test_the_spare_makes_room_for_a_promise_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = Spare(tmp_path, size=4096)
    assert spare.refill()
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if (tmp_path / SPARE_NAME).exists():
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    terms = TermFile(tmp_path, spare, fresh=True)
    terms.save(TermAndVote(2, "n0"))
    assert opened(tmp_path).state == TermAndVote(2, "n0")


# What Java's replacement leaves: .tmp written, the old one copied to .bak, removed, .tmp renamed.
LEFT = [
    ("before it began", {"currterm": TEXT}, TermAndVote(5, "n1")),
    ("before the removal", {"currterm": TEXT, "currterm.tmp": "currTerm=6\nvoteLeader=\n"},
     TermAndVote(5, "n1")),
    ("before the rename", {"currterm.tmp": "currTerm=6\nvoteLeader=\n", "currterm.bak": TEXT},
     TermAndVote(6)),
    ("with a torn new one", {"currterm.tmp": "currTe", "currterm.bak": TEXT},
     TermAndVote(5, "n1")),
]  # fmt: skip


@pytest.mark.parametrize(("when", "files", "state"), LEFT, ids=[row[0] for row in LEFT])
def test_a_folder_that_java_left_in_the_middle_of_a_replacement(
    tmp_path: Path, when: str, files: dict[str, str], state: TermAndVote
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert opened(tmp_path).state == opened(tmp_path, fresh=True).state == state, when


@pytest.mark.parametrize(
    ("files", "fresh"),
    [
        ({}, False),
        ({"currterm": ""}, False),
        ({"currterm": ""}, True),
        ({"currterm": "\0" * 30, "currterm.bak": TEXT}, False),
        ({"currterm": TEXT + "#" * FILE_BYTES_MAX}, False),
        ({"currterm.tmp": "currT"}, False),
        ({"currterm.tmp": "currT", "currterm.bak": ""}, True),
    ],
    ids=["lost", "empty", "empty and new", "zeros", "too long", "torn", "torn, and not the first"],
)
def test_a_promise_that_cannot_be_read_is_never_guessed(
    tmp_path: Path, files: dict[str, str], fresh: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(LogError, match="nobody knows what this member promised"):
        opened(tmp_path, fresh)


def test_a_kill_during_the_first_promise_ever_left_none(tmp_path: Path) -> None:
    (tmp_path / "currterm.tmp").write_text("currT")
    terms = opened(tmp_path, fresh=True)
    assert terms.state == TermAndVote()
    terms.save(TermAndVote(1, "n0"))
    assert opened(tmp_path).state == TermAndVote(1, "n0")


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    files = SmallFiles(tmp_path, Spare(tmp_path))
    assert files.load_marks() == Marks(durable=None)
    files.save_marks(Marks(9, 7, Place(2, 8)))
    assert files.load_marks() == Marks(9, 7, Place(2, 8))
    (tmp_path / "checkpoint").write_bytes(bytes(100))
    assert files.load_marks() == Marks(-1, -1, None) != Marks(-1, -1, EMPTY)


def test_a_debt_comes_back_until_it_is_paid(tmp_path: Path) -> None:
    files = SmallFiles(tmp_path, Spare(tmp_path))
    assert files.load_owed() is None
    files.save_owed(Place(3, 9))
    assert files.load_owed() == Place(3, 9)
    files.save_owed(None)
    files.save_owed(None)
    assert files.load_owed() is None


def test_a_torn_debt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "owed").write_text("term=3\nind")
    with pytest.raises(LogError, match="owed"):
        SmallFiles(tmp_path, Spare(tmp_path)).load_owed()
