"""A snapshot rebuilt from bronze is the one a controller would have written at that offset, and
never one of another history.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from events.codec import decode, encode
from events.outcomes import Outcome
from lakehouse.answers.snapshot import write_snapshot
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables.lake import Lake
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.log.snapshots import SnapshotFolder
from tests.support.control_history import CLUSTER_ID
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    BEGAN_MS,
    append_to_bronze,
    command_records,
    land,
    outcome_records,
)

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)


def folded(last: int) -> Folder:
    folder = Folder()
    for offset, value in enumerate(RECORDS[: last + 1]):
        folder.apply(offset, value)
    return folder


@pytest.mark.parametrize("offset", [0, 7, len(RECORDS) - 1])
def test_any_offset_gives_the_bytes_that_a_controller_would_have_written(
    offset: int, lake: Lake, tmp_path: Path
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    written = write_snapshot(lake, tmp_path / "one.bin", offset=offset)
    assert (tmp_path / "one.bin").read_bytes() == snapshot_codec.dump(folded(offset))
    assert (written.offset, written.published, written.cluster_id) == (offset, True, CLUSTER_ID)


def test_in_a_folder_it_has_the_name_that_a_controller_looks_for(
    lake: Lake, tmp_path: Path
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    place = tmp_path / "snapshots"
    place.mkdir()
    written = write_snapshot(lake, place, at_ms=BEGAN_MS + 5_500)
    assert (written.offset, written.at_ms) == (5, BEGAN_MS + 5_000)
    found = next(SnapshotFolder(place, 3).newest_first(len(RECORDS)))
    assert (found.offset, found.digest) == (5, folded(5).digest)
    assert [one.name for one in place.iterdir()] == [Path(written.path).name]


def test_it_says_whether_a_controller_will_start_from_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.fold.state_digest.STATE_DIGEST_EVERY", 4)
    land(lake, [*COMMANDS, *OUTCOMES])
    assert ("A controller of that cluster starts from it") in write_snapshot(
        lake, tmp_path / "a.bin", offset=3
    ).text()
    assert ("does not start from it") in (
        said := write_snapshot(lake, tmp_path / "b.bin", offset=5).text()
    ) and "--at 3 " in said


def test_without_an_outcome_it_is_written_and_says_so(lake: Lake, tmp_path: Path) -> None:
    land(lake, [*COMMANDS, *OUTCOMES[:5]])
    written = write_snapshot(lake, tmp_path / "last.bin")
    assert (written.offset, written.published) == (len(RECORDS) - 1, False)
    assert "no outcome of that command has landed" in written.text()


def test_another_history_than_the_published_one_is_refused(lake: Lake, tmp_path: Path) -> None:
    told = decode(OUTCOMES[6][3] or b"")
    assert isinstance(told, Outcome)
    lie = encode(replace(told, digest=bytes(32)))
    land(lake, [*COMMANDS, *OUTCOMES[:6], (*OUTCOMES[6][:3], lie)])
    with pytest.raises(LakehouseError, match="offset 6 gives another digest than was published"):
        write_snapshot(lake, tmp_path / "wrong.bin", offset=6)
    assert not list(tmp_path.glob("*.bin*"))


def test_what_has_not_landed_and_holes_are_named(lake: Lake, tmp_path: Path) -> None:
    land(lake, COMMANDS[:4])
    with pytest.raises(NotLanded, match="command 9 has not landed: last 3"):
        write_snapshot(lake, tmp_path / "no.bin", offset=9)
    append_to_bronze(lake, COMMANDS[6:])
    assert write_snapshot(lake, tmp_path / "below.bin", offset=3).offset == 3
    with pytest.raises(LakehouseError, match="offset 6, expected 4"):
        write_snapshot(lake, tmp_path / "no.bin", offset=9)
