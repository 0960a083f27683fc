"""What was last told of each replica, whoever told it."""

from typing import Any

from msgspec.structs import asdict

from lakehouse.answers.last_evidence import TABLES, last_words
from lakehouse.tables.specs import BY_NAME
from tests.support.control_history import seen


def command(at_ms: int, *evidence: Any) -> dict[str, Any]:
    return {"at_ms": at_ms, "evidence": [asdict(one) for one in evidence]}


def registered(
    at_ms: int, broker_id: int, incarnation: str, epoch: int | None = 3, offset: int | None = 700
) -> dict[str, Any]:
    return {
        "at_ms": at_ms,
        "broker_id": broker_id,
        "incarnation": incarnation,
        "last_epoch": epoch,
        "end_offset": offset,
    }


def test_each_of_the_tables_is_there() -> None:
    assert all(f"silver/{name}" in BY_NAME for name in TABLES)


def test_the_newest_word_counts_and_unknown_numbers_take_nothing_away() -> None:
    found = last_words(
        {
            "elect_master": [command(20, seen(1, alive=False, epoch=-1, offset=-1))],
            "alter_sync_state_set": [command(10, seen(1, epoch=2))],
        }
    )
    word = found[1]
    assert (
        word.at_ms,
        word.source,
        word.evidence.alive,
        word.evidence.epoch,
        word.evidence.max_offset,
    ) == (20, "elect_master", False, 2, 1000)


def test_another_start_voids_what_the_one_before_told() -> None:
    rows = {
        "elect_master": [command(10, seen(1, epoch=2, priority=5))],
        "register_broker": [registered(20, 1, "i1b", None, None)],
    }
    evidence = last_words(rows)[1].evidence
    assert (
        evidence.alive,
        evidence.incarnation,
        evidence.epoch,
        evidence.max_offset,
        evidence.confirm_offset,
    ) == (True, "i1b", -1, -1, -1)
    assert last_words({"register_broker": [registered(5, 1, "i1")]})[1].evidence.max_offset == 700


def test_brokers_own_words() -> None:
    rows = {
        "first_message_acknowledged": [{"at_ms": 10, "broker_id": 1, "epoch": 4, "offset": 900}],
        "slave_caught_up": [{"at_ms": 20, "broker_id": 1, "slave_broker_id": 2, "offset": 950}],
        "epoch_appended": [{"at_ms": 19, "broker_id": 2, "epoch": 4}],
        "log_truncated": [{"at_ms": 30, "broker_id": 3, "epoch": 3, "to_offset": 800}],
        "store_recovered": [{"at_ms": 31, "broker_id": 4, "end_offset": 600}],
        "broker_stopped": [{"at_ms": 40, "broker_id": 2}],
        "heartbeat_gap": [
            {"at_ms": 50, "silent_broker_id": 3, "restarted": False},
            {"at_ms": 60, "silent_broker_id": 4, "restarted": True},
        ],
    }
    found = {
        number: (one.evidence.alive, one.evidence.epoch, one.evidence.max_offset, one.source)
        for number, one in last_words(rows).items()
    }
    assert found == {
        1: (True, 4, 950, "slave_caught_up"),
        2: (False, 4, 950, "broker_stopped"),
        3: (True, 3, 800, "heartbeat_gap"),
        4: (False, -1, 600, "store_recovered"),
    }
