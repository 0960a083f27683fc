"""The folder of a member as a whole: which files, who has it, in which order it opens and ends."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokers.majority.entry import Place
from brokers.majority.log_port import Taken, TermAndVote
from brokers.majority.store import folder as folders
from brokers.majority.store.folder import (
    INDEX_FILE_BYTES_DEFAULT,
    MajorityFolder,
    MajorityStoreConfig,
    folder_name,
)
from brokers.store.files.durable import StoreInUse
from brokers.store.files.errors import LogError
from tests.support.descriptors import open_count
from tests.unit.brokers.majority.store.majority_samples import (
    FILE,
    append,
    entries,
    filled,
    kill,
    small_folder,
)

# What DLedger loads: every file of these two folders, or it ends its process.
LOADED = {"data": FILE, "index": FILE}


def test_files_have_dledgers_names(tmp_path: Path) -> None:
    assert folder_name("n0") == "dledger-n0"
    filled(tmp_path, [600] * 3).close()
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {
        *(f"data/{start:020d}" for start in (0, FILE, 2 * FILE)),
        f"index/{0:020d}",
        "currterm",
        "checkpoint",
        "lock",
        "spare",
    }


def test_the_defaults_are_dledgers() -> None:
    config = MajorityStoreConfig()
    assert config.data_file_bytes == 1 << 30
    assert config.index_file_bytes == INDEX_FILE_BYTES_DEFAULT == 160 << 20


def test_nothing_else_lies_where_dledger_loads_every_file(tmp_path: Path) -> None:
    folder = filled(tmp_path, [200] * 30)
    folder.log.truncate_from(20)
    folder.log.commit(15)
    folder.log.trim(2 * FILE)()
    kill(folder)
    small_folder(tmp_path).close()
    for name, size in LOADED.items():
        found = list((tmp_path / name).iterdir())
        assert found and {path.stat().st_size for path in found} == {size}
        assert all(len(path.name) == 20 and path.name.isdigit() for path in found)


def test_a_new_folder_outlives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(folders, "sync_directory", synced.append)
    small_folder(tmp_path / "store" / "dledger-n0").close()
    assert synced == [tmp_path, tmp_path / "store"]
    small_folder(tmp_path / "store" / "dledger-n0").close()
    assert len(synced) == 2


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    folder = small_folder(tmp_path)
    with pytest.raises(StoreInUse):
        small_folder(tmp_path)
    folder.close()
    small_folder(tmp_path).close()


def test_an_orderly_end_leaves_everything_durable_and_marked(tmp_path: Path) -> None:
    folder = filled(tmp_path, [200] * 10)
    folder.log.commit(7)
    folder.close()
    again = small_folder(tmp_path, same_boot=False)
    assert again.log.last == Place(1, 9) and again.log.flushed_index == 9
    assert again.log.committed_index == 7 and again.terms.state == TermAndVote(1, "n0")
    assert again.found.cut_bytes == 0 and again.found.stopped_at == ""
    again.close()


def test_a_start_refuses_files_of_another_size_and_leaves_the_folder(tmp_path: Path) -> None:
    filled(tmp_path, [200] * 10).close()
    for sizes in ((2 * FILE, FILE), (FILE, 2 * FILE)):
        with pytest.raises(LogError, match="are configured"):
            MajorityFolder(tmp_path, MajorityStoreConfig(*sizes))
    assert not open_count(tmp_path)
    small_folder(tmp_path).close()


def test_a_start_refuses_a_missing_file_and_a_lost_promise(tmp_path: Path) -> None:
    filled(tmp_path, [600] * 5).close()
    (tmp_path / "currterm").unlink()
    with pytest.raises(LogError, match="promised"):
        small_folder(tmp_path)
    (tmp_path / "currterm").write_text("currTerm=1\nvoteLeader=n0\n")
    (tmp_path / "data" / f"{FILE:020d}").unlink()
    with pytest.raises(LogError, match="missing"):
        small_folder(tmp_path)
    assert not open_count(tmp_path)


def test_what_is_owed_is_said_once_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = filled(tmp_path, [200] * 10)
    held = entries(folder.log)
    folder.close()
    with (tmp_path / "data" / f"{0:020d}").open("r+b") as file:
        file.seek(100)
        file.write(b"\xee")
    again = small_folder(tmp_path)
    assert "grants no vote" in caplog.text
    assert again.log.owed == Place(1, 9)
    for entry in held:
        assert again.log.append_as_follower(entry) in (Taken.APPENDED, Taken.HELD)
    again.close()
    third = small_folder(tmp_path)
    assert third.log.owed == Place(1, 9), "nobody has said yet that these are the committed ones"
    third.log.commit(9)
    assert third.log.owed is None
    third.close()


def test_every_descriptor_is_given_back(tmp_path: Path) -> None:
    folder = filled(tmp_path, [200] * 10)
    assert open_count(tmp_path)
    folder.close()
    assert not open_count(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_any_life_of_a_log_leaves_what_a_list_would(tmp_path: Path, seed: int) -> None:
    """Appended, cut, restarted, trimmed, killed and closed at random, beside a list in memory."""
    draw, model, first, term = random.Random(seed), [], 0, 1
    folder = small_folder(tmp_path)
    folder.terms.save(TermAndVote(1))
    for _ in range(120):
        log, what = folder.log, draw.randrange(12)
        if what < 7:
            model.append(append(log, draw.choice((0, 1, 100, 900)), term))
        elif what == 7 and len(model) - 1 > max(log.committed_index, first):
            cut = draw.randrange(max(log.committed_index + 1, first), len(model))
            log.truncate_from(cut)
            del model[cut:]
            term += 1
        elif what == 8:
            log.commit(draw.randrange(-1, len(model) + 2))
        elif what == 9 and log.committed_index >= 0:
            log.trim(draw.randrange(1 << 16))()
            first = max(log.first_index, 0)
        elif what >= 10:
            (kill if what == 10 else MajorityFolder.close)(folder)
            folder = small_folder(tmp_path)
        assert folder.log.last.index == len(model) - 1
        assert folder.log.committed_index <= folder.log.last.index
    assert entries(folder.log) == model[first:] and folder.log.owed is None
    folder.close()
