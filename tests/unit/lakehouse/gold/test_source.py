from pathlib import Path

import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp, LogTruncated
from events.codec import encode
from lakehouse.errors import LakehouseError
from lakehouse.gold import source
from lakehouse.tables.lake import Lake
from tests.support.control_history import CLUSTER, CLUSTER_ID, NAME, with_master
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    event_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = with_master(1, 2, 3).records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)


def offsets(piece: source.Piece) -> list[int]:
    return [offset for offset, _, _ in piece.records]


def next_piece(lake: Lake, after: int, count_max: int) -> source.Piece:
    return source.next_piece(lake, source.Decisions(lake), after, count_max)


def test_pieces_follow_one_another_up_to_the_last_published(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*COMMANDS, *OUTCOMES[:7]])
    first = next_piece(lake, -1, 5)
    assert (offsets(first), sorted(first.published)) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    assert first.records[2][2] == RECORDS[2] and first.records[2][1] is not None
    assert offsets(next_piece(lake, 4, 5)) == [5, 6]
    assert offsets(next_piece(lake, 6, 5)) == []
    assert (source.last_landed(lake, 6), source.Decisions(lake).last(6)) == (len(RECORDS) - 1, None)


def test_outcomes_that_nobody_can_read_hold_nothing_up(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    unreadable = [(topic, partition, offset, b"?") for topic, partition, offset, _ in OUTCOMES[:6]]
    land(lake, [*COMMANDS, *unreadable, *OUTCOMES[6:8]])
    piece = next_piece(lake, -1, 3)
    assert (offsets(piece), dict(piece.published)) == ([0, 1, 2], {})
    assert offsets(next_piece(lake, 2, 100)) == [3, 4, 5, 6, 7]


def test_outcomes_may_land_before_their_commands(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*COMMANDS[:3], *OUTCOMES])
    assert offsets(next_piece(lake, -1, 100)) == [0, 1, 2]
    assert offsets(next_piece(lake, 2, 100)) == []


def test_a_piece_ends_before_a_hole_and_none_begins_behind_it(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*COMMANDS[:3], *OUTCOMES])
    append_to_bronze(lake, COMMANDS[4:])
    assert offsets(next_piece(lake, -1, 100)) == [0, 1, 2]
    with pytest.raises(LakehouseError, match="command 3 never landed"):
        next_piece(lake, 2, 100)


def test_only_events_that_failovers_rest_on_count(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    head = [BrokerEventHeader(bytes([n] * 16), CLUSTER, NAME, n, "i", 1000 + n, 0) for n in (1, 2)]
    events = [encode(LogTruncated(head[0], 9, 5, 1, "")), encode(HaLinkUp(head[1], 2, "out"))]
    land(lake, [*COMMANDS, *event_records(events)])
    found = source.BrokerEvents(lake)
    assert {kind: len(rows) for kind, rows in found.rows[CLUSTER_ID].items() if rows} == {
        "log_truncated": 1
    }
    assert found.count() == 1
    assert source.BrokerEvents(lake_in(tmp_path, "cluster-2")).count() == 0


def versions(lake: Lake) -> tuple[int, ...]:
    return source.versions(lake, source.BrokerEvents(lake))


def test_versions_stay_until_something_lands(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*COMMANDS[:3], *OUTCOMES[:3]])
    before = versions(lake)
    assert versions(lake) == before
    land(lake, [*COMMANDS, *OUTCOMES[:3]])
    assert versions(lake) != before
