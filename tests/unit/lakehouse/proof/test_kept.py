"""What was proven is there for the next proof, the newest row of each piece counts, and nothing
breaks when there is none.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.proof.kept import PROVEN, keep, kept, states
from lakehouse.proof.plan import Piece
from lakehouse.tables.lake import Lake

AT = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Piece(COMMANDS_TOPIC, 0, "n0", "empty", "s0", "d0")
SECOND = Piece(COMMANDS_TOPIC, 1, "n1", "s0", "s1", "d1")
SAID = Piece(OUTCOMES_TOPIC, 0, "o0", lowest=0, highest=7)


def test_what_is_kept_comes_back(lake: Lake) -> None:
    keep(lake, 4, [FIRST, SECOND, SAID], {0: b"zero", 1: b"one"}, AT)
    assert kept(lake, 4) == {(piece.topic, piece.number): piece for piece in (FIRST, SECOND, SAID)}
    assert states(lake, 4, COMMANDS_TOPIC, [1]) == {1: b"one"}
    assert states(lake, 4, COMMANDS_TOPIC, [7]) == states(lake, 4, COMMANDS_TOPIC, []) == {}


def test_the_newest_row_of_a_piece_counts(lake: Lake) -> None:
    keep(lake, 4, [FIRST], {0: b"zero"}, AT)
    again = Piece(COMMANDS_TOPIC, 0, "other", "empty", "s9", "d9")
    keep(lake, 4, [again], {0: b"nine"}, AT + timedelta(hours=1))
    assert kept(lake, 4) == {(COMMANDS_TOPIC, 0): again}
    assert states(lake, 4, COMMANDS_TOPIC, [0]) == {0: b"nine"}


def test_other_sizes_and_other_clusters_are_another_matter(lake: Lake) -> None:
    keep(lake, 4, [FIRST], {0: b"zero"}, AT)
    assert kept(lake, 8) == {} == kept(lake.of("another"), 4)


def test_without_a_table_nothing_is_kept(lake: Lake) -> None:
    assert kept(lake, 4) == {}
    keep(lake, 4, [], {}, AT)
    assert not Path(lake.uri(PROVEN)).exists()


def test_a_place_that_cannot_be_written_is_said(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LakehouseError, match="proof/pieces cannot be written"):
        keep(Lake(str(tmp_path / "file"), "c"), 4, [FIRST], {0: b"zero"}, AT)
