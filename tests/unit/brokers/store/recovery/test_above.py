"""Queues above a log that has recovered by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from brokers.store.recovery.above import recover_above
from brokers.store.recovery.checkpoint import Checkpoint
from tests.support.message_stores import OfEntries, put
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, message


def filled(root: Path, confirmed: int = 60) -> OfEntries:
    one = OfEntries(root)
    one.lead()
    found = put(one, *[message(body=b"%d" % n) for n in range(90)], now_ms=NOW_MS)
    one.confirm(found[confirmed - 1].end_offset)
    return one


@pytest.mark.parametrize(("same_boot", "known"), [(True, 30), (False, 0)])
def test_what_the_log_has_lost_leaves_the_queues(
    tmp_path: Path, same_boot: bool, known: int
) -> None:
    """A follower knows to be committed what a majority of others flushed: its own copy may go. What
    no checkpoint calls committed is read again when the leader says so.
    """
    one = filled(tmp_path)
    entry = one.folder.log.get(31)
    assert entry is not None
    one.close(clean=False)
    data = sorted((tmp_path / "dledger-n0/data").iterdir())
    for path in data:
        start = int(path.name)
        with path.open("r+b") as file:
            file.seek(max(0, entry.position - start))
            if entry.position < start + 4_096:
                file.write(bytes(start + 4_096 - max(start, entry.position)))
    again = OfEntries(tmp_path, same_boot=same_boot)
    assert again.store.log_end == entry.position
    assert again.store.dispatched_offset <= entry.position
    assert bodies(again.store) == [b"%d" % n for n in range(known)]
    assert again.store.recovery.end_offset == entry.position
    again.confirm()
    assert bodies(again.store) == [b"%d" % n for n in range(30)]
    again.close(clean=True)


def test_the_log_alone_is_enough(tmp_path: Path) -> None:
    one = filled(tmp_path)
    one.close(clean=True)
    for name in ("consumequeue", "index"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    for name in ("queueEnds", "checkpoint"):
        (tmp_path / name).unlink(missing_ok=True)
    again = OfEntries(tmp_path)
    assert bodies(again.store) == [b"%d" % n for n in range(60)], "committed is what the log says"
    again.close(clean=True)


@pytest.mark.parametrize("empty", [True, False])
def test_the_report_says_what_was_found(tmp_path: Path, empty: bool) -> None:
    one = OfEntries(tmp_path) if empty else filled(tmp_path)
    store = one.store
    report = recover_above(
        store.log,
        store.queues,
        store.dispatcher,
        Checkpoint(),
        committed=one.store.entries.committed_offset,
        cut_bytes=5,
        abnormal=True,
        same_boot=True,
    )
    assert report.end_offset == store.log_end and report.abnormal
    assert report.cut_bytes == (0 if empty else 5)
    assert report.confirm_offset == one.store.entries.committed_offset
    one.close(clean=True)
