"""Folders that DLedger 0.3.1.2 wrote, opened by ours; and the same entries written by ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from brokers.majority.entry import Place
from brokers.majority.log_port import Taken, TermAndVote
from brokers.majority.store.folder import folder_name
from tests.interop.dledger_store import (
    MEMBER,
    appended,
    bare,
    java_said,
    opened,
    own_entries,
    shown,
    without_checksums,
)

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
NAMES = sorted(EXPECTED)


def recorded(name: str):
    return [shown(f"1 {line}") for line in EXPECTED[name]["entries"]]


@pytest.fixture(params=NAMES)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    shutil.copytree(HERE / request.param, tmp_path / "copy")
    return request.param, tmp_path / "copy"


@pytest.mark.parametrize("same_boot", [True, False])
def test_every_entry_is_found(copied: tuple[str, Path], same_boot: bool) -> None:
    name, base = copied
    folder = opened(base, same_boot)
    assert bare(own_entries(folder.log)) == bare(recorded(name))
    log, state = folder.log, folder.terms.state
    assert java_said(0, log.last, log.committed_index, state) == EXPECTED[name]["said"]
    assert log.owed is None and folder.found.index_from == -1
    folder.close()


def test_opening_changes_no_byte_of_an_entry(copied: tuple[str, Path]) -> None:
    name, base = copied
    opened(base).close()
    again = opened(base)
    end = again.log.data.end_offset
    again.close()
    before = b"".join(path.read_bytes() for path in data_files(HERE / name))
    after = b"".join(path.read_bytes() for path in data_files(base))
    assert after[:end] == before[:end] and not any(after[end:])
    assert any(before[end:]) is (name == "killed"), "bytes that Java left behind its end are gone"


def data_files(base: Path) -> list[Path]:
    return sorted((base / folder_name(MEMBER) / "data").iterdir())


@pytest.mark.parametrize("as_follower", [True, False])
def test_the_same_entries_written_by_ours_are_the_same_bytes(
    tmp_path: Path, as_follower: bool
) -> None:
    folder = opened(tmp_path)
    folder.terms.save(TermAndVote(3, MEMBER))
    for entry in recorded("stopped"):
        if as_follower:
            assert folder.log.append_as_follower(entry) is Taken.APPENDED
        else:
            appended(folder.log, 3, entry.body)
    folder.log.commit(20)
    folder.close()
    for name in ("data", "index"):
        assert without_checksums(tmp_path, name) == without_checksums(HERE / "stopped", name)


def test_what_goes_on_is_chained_to_an_entry_of_java(copied: tuple[str, Path]) -> None:
    _, base = copied
    folder = opened(base)
    last = folder.log.last
    folder.terms.save(TermAndVote(9, MEMBER))
    made = appended(folder.log, 9, b"new")
    assert made.chain_crc and made.body_crc and made.index == last.index + 1
    folder.close()
    again = opened(base, same_boot=False)
    assert again.log.last == Place(9, made.index) and again.log.get(made.index) == made
    again.close()
