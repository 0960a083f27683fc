"""Findings that need no fold."""

import numpy as np

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.as_it_was import cuts, doubled, known, older, shortened
from lakehouse.proof.known_names import KnownPiece, Sizes
from lakehouse.proof.names import older_name
from lakehouse.proof.plan import Piece
from lakehouse.proof.witnesses import LakeWitnesses, Witness
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import NOTHING_LOST
from tests.support.landed_log import Record, event_records, land

RECORDS: list[Record] = [(COMMANDS_TOPIC, 0, offset, b"v%d" % offset) for offset in range(9)]
ENDS = {(COMMANDS_TOPIC, 0): 9}


def test_records_that_stand_twice_are_told_but_for_commands() -> None:
    twice = np.array([0, 1, 1, 2, 3, 3])
    [told] = doubled({(COMMANDS_TOPIC, 0): twice, (BROKER_EVENTS_TOPIC, 2): twice})
    assert (told.topic, told.partition, told.first, told.last) == (BROKER_EVENTS_TOPIC, 2, 1, 3)
    assert "landed twice (1, 3)" in told.said
    [many] = doubled({(OUTCOMES_TOPIC, 0): np.repeat(np.arange(9), 2)})
    assert "(0, 1, 2, 3, 4 and 4 more)" in many.said
    assert doubled({(OUTCOMES_TOPIC, 0): np.arange(9)}) == []


def test_without_kept_names_it_is_said_how_much_is_named_for_the_first_time(lake: Lake) -> None:
    land(lake, [*RECORDS, *event_records([b"a"])])
    found, [told] = known(lake, Sizes(4, 2), BronzeFiles(lake))
    assert not found and told.startswith("10 records are named for the first time")


def test_names_are_cut_where_pieces_end() -> None:
    pieces = [KnownPiece("t", 0, 0, 4, ()), KnownPiece("t", 0, 1, 7, ())]
    assert cuts(pieces) == {("t", 0): {4, 7}}


def test_pieces_of_an_older_release_are_compared_by_its_names(lake: Lake) -> None:
    land(lake, RECORDS)
    files = BronzeFiles(lake)
    rows = files.rows((COMMANDS_TOPIC, 0), 0, 4, ("offset", "value"))
    right = Piece(COMMANDS_TOPIC, 0, older_name(rows), naming=1)
    wrong = Piece(COMMANDS_TOPIC, 1, "another", naming=1)
    beyond = Piece(COMMANDS_TOPIC, 2, "gone", naming=1)
    assert older(files, [Piece(COMMANDS_TOPIC, 1, "new")], ENDS, 4) == ({}, [])
    found, [told] = older(files, [right, wrong, beyond], ENDS, 4)
    [[finding]] = found.values()
    assert (finding.first, finding.last) == (4, 7) and list(found) == [(COMMANDS_TOPIC, 0, 1)]
    assert told.startswith("3 pieces were proven by an earlier release")


def test_an_end_that_somebody_remembers_is_a_finding_with_what_to_do(lake: Lake) -> None:
    land(lake, RECORDS)
    before = LakeWitnesses(lake, [Witness(COMMANDS_TOPIC, 0, 12, "gold/progress")])
    [told] = shortened(before, ENDS, NOTHING_LOST)
    assert (told.first, told.last) == (9, 11)
    assert "gold/progress knows records up to 11" in told.text()
    assert "start the landing job without its checkpoint folder" in told.text()
    assert shortened(LakeWitnesses(lake, []), ENDS, NOTHING_LOST) == []
