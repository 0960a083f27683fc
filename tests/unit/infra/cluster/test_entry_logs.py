"""Logs of entries from their files: equal by index, term and checksum, or the first that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig
from infra.cluster import entry_logs

FILE_BYTES = 4_096


def log(folder: Path, entries: list[tuple[int, bytes]]) -> tuple[Path, int]:
    """A member's data files, and where they end."""
    made = MajorityFolder(folder, MajorityStoreConfig(FILE_BYTES, 1 << 12))
    for term, body in entries:
        made.log.append_as_leader(term, len(body), lambda _, body=body: body)
    end = made.log.data.end_offset
    made.close()
    return folder / "data", end


SAME = [(number // 10, b"%05d" % number * 20) for number in range(60)]


def test_logs_are_compared_across_files_up_to_what_is_committed(tmp_path: Path) -> None:
    (a, end), (b, longer) = log(tmp_path / "a", SAME), log(tmp_path / "b", [*SAME, (9, b"more")])
    assert longer > end > 2 * FILE_BYTES
    found = entry_logs.compare({"a": a, "b": b}, end)
    assert found == entry_logs.EntriesCompared(("a", "b"), 60, 6, None)


@pytest.mark.parametrize("other", [(4, SAME[40][1][:-1] + b"x"), (5, SAME[40][1])])
def test_the_first_entry_that_differs_is_named(tmp_path: Path, other: tuple[int, bytes]) -> None:
    a, end = log(tmp_path / "a", SAME[:50])
    behind = [(max(term, other[0]), body) for term, body in SAME[41:50]]
    b, _ = log(tmp_path / "b", [*SAME[:40], other, *behind])
    assert entry_logs.compare({"a": a, "b": b}, end).first_difference == 40


def test_a_log_that_ends_too_early_is_none(tmp_path: Path) -> None:
    (a, end), (b, _) = log(tmp_path / "a", SAME), log(tmp_path / "b", SAME[:-1])
    with pytest.raises(ValueError, match="no entry at"):
        entry_logs.compare({"a": a, "b": b}, end)
