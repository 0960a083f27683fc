"""What one start of a member tells history."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.process.majority.config import MemberConfig
from brokers.process.majority.member import OpenedFolder
from brokers.process.majority.telling import TOLD_AT_ONCE, TOLD_PER_S, GroupEvents, Limited
from tests.support.majority_group import member_config

MEMBERS = {"n0": "127.0.0.1:1", "n1": "127.0.0.1:2", "n10": "127.0.0.1:4", "n2": "127.0.0.1:3"}
CUT = {
    "member_id": "n1", "term": 3, "candidate_id": "n1", "end_index": 1, "end_term": 1,
    "committed_index": 1, "committed_term": 1,
}  # fmt: skip
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


def config_of(tmp_path: Path, self_id: str = "n1", **changes: object) -> MemberConfig:
    return member_config(tmp_path / "store", MEMBERS, self_id, **changes)


@pytest.mark.parametrize(("self_id", "number"), [("n0", 1), ("n1", 2), ("n2", 3), ("n10", 4)])
def test_members_have_numbers_as_rocketmqs_brokers_have(
    tmp_path: Path, self_id: str, number: int
) -> None:
    assert config_of(tmp_path, self_id).broker_id == number


async def test_without_kafka_nothing_is_told_and_nothing_is_needed(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    opened = OpenedFolder(config)
    events = GroupEvents(config, opened.boot.incarnation, Clock())
    events.started(opened)
    events.happened("MajorityVoteCast", CUT)
    await events.stopped("asked to")
    opened.close(failed=False)
    assert (events.reporter.reported, events.reporter.dropped) == (0, 0)


async def test_too_many_facts_are_counted_and_left_out(tmp_path: Path) -> None:
    config = config_of(tmp_path, kafka=NOWHERE)
    events = GroupEvents(config, "i", Clock())
    for _ in range(TOLD_AT_ONCE + 500):
        events.happened("MajorityVoteCast", CUT)
    assert TOLD_AT_ONCE <= events.reporter.reported < TOLD_AT_ONCE + 100
    assert events.reporter.dropped == TOLD_AT_ONCE + 500 - events.reporter.reported
    assert events.reporter.broker_id == 2


@pytest.mark.parametrize(("waits_ms", "more"), [(0, 0), (100, 1), (1_000, TOLD_PER_S)])
def test_after_a_burst_so_many_more_are_told(waits_ms: int, more: int) -> None:
    limit = Limited(5_000)
    assert sum(limit.lets_through(5_000) for _ in range(2 * TOLD_AT_ONCE)) == TOLD_AT_ONCE
    now_ms = 5_000 + waits_ms
    assert sum(limit.lets_through(now_ms) for _ in range(2 * TOLD_AT_ONCE)) == more


def test_a_rest_gives_no_more_than_one_burst() -> None:
    limit = Limited(0)
    assert sum(limit.lets_through(86_400_000) for _ in range(1_000)) == TOLD_AT_ONCE
