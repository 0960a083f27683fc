"""What was named is there for the next proof; whatever differs is a finding with its offsets."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.proof.known_names import (
    KnownPiece,
    Sizes,
    changed,
    keep_names,
    known_names,
    misfits,
    named_piece,
)
from lakehouse.proof.names import BlockName
from lakehouse.tables.lake import Lake

SIZES = Sizes(20, 5)
AT = datetime(2026, 1, 1, tzinfo=UTC)
COMMANDS, EVENTS = (COMMANDS_TOPIC, 0), (BROKER_EVENTS_TOPIC, 3)


def name(seed: int, landing: int = 0) -> BlockName:
    return BlockName(bytes([seed]) * 32, bytes([landing]) * 32)


NAMES = {end: name(end) for end in (5, 10, 15, 20, 25, 30, 33)}
FIRST = named_piece(COMMANDS, 0, 20, NAMES, SIZES)
SECOND = named_piece(COMMANDS, 1, 33, NAMES, SIZES)


def test_a_piece_has_a_name_for_each_block_and_for_the_part_at_its_end() -> None:
    assert FIRST.names == tuple(NAMES[end].packed for end in (5, 10, 15, 20))
    assert (SECOND.end, len(SECOND.names)) == (33, 3)


def test_what_is_kept_comes_back_and_the_newest_row_of_a_piece_counts(lake: Lake) -> None:
    assert known_names(lake, SIZES) == {}
    event = named_piece(EVENTS, 0, 4, {4: name(4)}, SIZES)
    keep_names(lake, SIZES, [FIRST, event], AT)
    keep_names(lake, SIZES, [SECOND, named_piece(EVENTS, 0, 5, {5: name(9)}, SIZES)], AT)
    keep_names(lake, SIZES, [], AT)
    longer = named_piece(EVENTS, 0, 10, NAMES, SIZES)
    keep_names(lake, SIZES, [longer], AT + timedelta(hours=1))
    found = known_names(lake, SIZES)
    assert found[FIRST.key].names == FIRST.names and found[SECOND.key].end == 33
    assert (found[longer.key].end, found[longer.key].names) == (10, longer.names)
    assert found[FIRST.key].named_ms == int(AT.timestamp() * 1000)
    assert known_names(lake, Sizes(20, 10)) == {} == known_names(lake.of("other"), SIZES)


def test_a_table_that_cannot_be_read_is_no_empty_one(lake: Lake) -> None:
    keep_names(lake, SIZES, [FIRST], AT)
    for path in lake.folder.glob("proof/names/**/*.parquet"):  # type: ignore[union-attr]
        path.unlink()
    with pytest.raises(LakehouseError, match="proof/names"):
        known_names(lake, SIZES)


def test_nothing_differs_in_what_is_as_it_was() -> None:
    assert changed([FIRST, SECOND], {COMMANDS: NAMES}, {COMMANDS: 33}, SIZES) == {}
    assert changed([FIRST, SECOND], {COMMANDS: NAMES}, {COMMANDS: 99}, SIZES) == {}


def test_blocks_beside_one_another_are_one_finding_and_say_what_differs() -> None:
    now = {**NAMES, 5: name(99), 10: name(98), 20: name(20, landing=1), 33: name(97)}
    found = changed([FIRST, SECOND], {COMMANDS: now}, {COMMANDS: 33}, SIZES)
    told = [one for piece in found.values() for one in piece]
    assert [(one.first, one.last) for one in told] == [(0, 9), (15, 19), (30, 32)]
    assert "a value, a key or a timestamp" in told[0].said
    assert "landed at another time" in told[1].said
    assert "bronze/records, regent.commands-0 offsets 0 to 9: not what was proven" in (
        told[0].text()
    )
    assert "'regent verify --renew'" in told[0].text()


def test_a_block_of_which_nothing_is_left_differs() -> None:
    now = {end: one for end, one in NAMES.items() if end != 10}
    [[told]] = changed([FIRST], {COMMANDS: now}, {COMMANDS: 33}, SIZES).values()
    assert (told.first, told.last) == (5, 9)


def test_what_lies_behind_the_end_is_not_compared() -> None:
    assert changed([FIRST, SECOND], {COMMANDS: NAMES}, {COMMANDS: 12}, SIZES) == {}


NO_WHOLE, NO = "has no whole name of", "has no name of"


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([FIRST, SECOND], None),
        ([FIRST], None),
        ([SECOND], f"{NO} regent.commands-0 offsets 0 to 19"),
        ([FIRST, replace(SECOND, number=2, end=53)], f"{NO} regent.commands-0 offsets 20 to 39"),
        ([FIRST, replace(SECOND, names=())], f"{NO_WHOLE} regent.commands-0 offsets 20 to 39"),
        ([replace(FIRST, end=1)], f"{NO_WHOLE} regent.commands-0 offsets 0 to 19"),
        ([replace(FIRST, names=(b"x",) * 4)], f"{NO_WHOLE} regent.commands-0 offsets 0 to 19"),
    ],
)
def test_names_that_no_proof_keeps_so_are_told(pieces: list[KnownPiece], said: str | None) -> None:
    told = misfits({one.key: one for one in pieces}, SIZES)
    assert [said] == [said if said in one else one for one in told] if said else told == []
    assert all("or remove the folder of proof/names" in one for one in told)
