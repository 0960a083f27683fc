"""The proof, in a real Spark session, over small tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, RoleChanged
from events.codec import decode, encode
from events.topics import OUTCOMES_TOPIC
from lakehouse.errors import NotLanded
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import Scope, verify_in
from lakehouse.tables.delta import active_files, ensure_tables
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE
from tests.support import tampered_lake
from tests.support.control_history import History, seen, with_master
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    event_records,
    flip_value_byte,
    lake_in,
    land,
    outcome_records,
)

pytestmark = pytest.mark.spark


def history_with_failover() -> History:
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    history.append(b"garbage")
    return history


def test_whole_history_is_verified_up_to_its_last_command(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    verdict = verify_in(spark, lake)
    last = len(history.records) - 1
    assert (verdict.exit_code, verdict.verified_up_to) == (0, last)
    assert verdict.digest == history.folder.digest.hex()
    assert verdict.commands == verdict.compared == last + 1
    assert verdict.unreadable == 1
    assert verdict.publishers == ["n0"]
    assert f"verified up to offset {last}" in verdict.text()
    assert json.loads(json.dumps(verdict.as_dict()))["verified_up_to"] == last


def test_one_flipped_byte_is_named_by_its_offset(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    flip_value_byte(lake, 7)
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (1, 7, 6)
    assert "at offset 7" in verdict.text()


def test_a_missing_command_is_named(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    records = command_records(history.records)
    land(lake, records[:5] + outcome_records(history.records))
    # As if a file of bronze had been lost: the landing job itself refuses such a batch.
    append_to_bronze(lake, records[7:])
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.missing, verdict.verified_up_to) == (1, [[5, 6]], 4)
    assert "offsets 5 to 6" in verdict.text()


def test_a_damaged_file_is_named_with_its_offsets(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    records = command_records(history.records)
    land(lake, records[:5] + outcome_records(history.records))
    append_to_bronze(lake, records[5:7])
    append_to_bronze(lake, records[7:])
    files = active_files(lake, BRONZE, "topic", ("regent.commands",))["regent.commands"]
    path = next(
        path
        for path in (Path(file.removeprefix("file://")) for file in files)
        if pq.read_table(path, columns=["offset"], partitioning=None)["offset"].to_pylist()
        == [5, 6]
    )
    path.write_bytes(path.read_bytes()[:-40])
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.missing) == (1, [[5, 6]])
    assert [str(path) in problem for problem in verdict.problems] == [True]


def test_commands_without_outcome_are_counted_as_unproven(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    outcomes = outcome_records(history.records)[:-3]
    land(lake, command_records(history.records) + outcomes)
    verdict = verify_in(spark, lake)
    last = len(history.records) - 1
    assert (verdict.exit_code, verdict.unproven, verdict.verified_up_to) == (0, 3, last - 3)


def test_an_outcome_published_twice_counts_once(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    outcomes = outcome_records(history.records)
    again = [(t, p, o + len(outcomes), v) for t, p, o, v in outcome_records(history.records, "n1")]
    land(lake, command_records(history.records) + outcomes + again)
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.compared) == (0, len(outcomes))
    assert verdict.publishers == ["n0", "n1"]


def test_an_outcome_that_says_something_else_is_a_mismatch(spark: Any, lake: Lake) -> None:
    """The digest alone would not show it: it is copied from the right outcome."""
    history = history_with_failover()
    outcomes = outcome_records(history.records)
    topic, partition, offset, value = outcomes[9]
    lie = encode(replace(decode(value or b""), cause="another"))
    outcomes[9] = (topic, partition, offset, lie)
    land(lake, command_records(history.records) + outcomes)
    assert verify_in(spark, lake).first_mismatch == 9


def test_two_masters_in_one_epoch_are_a_problem(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    events = [
        encode(
            RoleChanged(
                BrokerEventHeader(bytes(16), "c", "broker-a", i, "i", 1, 1),
                "MASTER",
                2,
                i,
                "notified",
            )
        )
        for i in (2, 3)
    ]
    land(
        lake,
        command_records(history.records) + outcome_records(history.records) + event_records(events),
    )
    verdict = verify_in(spark, lake)
    assert verdict.exit_code == 1
    assert verdict.problems == ["broker-a: brokers [2, 3] were masters in epoch 2"]


def test_nothing_landed_is_said_so(spark: Any, lake: Lake) -> None:
    ensure_tables(lake)
    with pytest.raises(NotLanded, match="no commands have landed"):
        verify_in(spark, lake)


def test_nothing_published_proves_nothing(spark: Any, lake: Lake) -> None:
    land(lake, command_records(history_with_failover().records))
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.verified_up_to) == (1, -1)


def test_an_unproven_verdict_is_not_a_success() -> None:
    verdict = Verdict(verified_up_to=-1, digest=None, commands=0, compared=0, unproven=0)
    assert verdict.exit_code == 1


RANGE = 5
AT = 7


def with_other_outcome(lake: Lake, at: int) -> None:
    """What was published of a command is another cause, under the right digest."""

    def change(rows: list[Any]) -> list[Any]:
        lie = encode(replace(decode(rows[at]["value"]), cause="another"))
        return [*rows[:at], rows[at] | {"value": lie}, *rows[at + 1 :]]

    tampered_lake.tamper(lake, OUTCOMES_TOPIC, at, change)


TAMPERINGS = (
    tampered_lake.with_changed_byte,
    tampered_lake.with_missing_record,
    tampered_lake.with_inserted_record,
    tampered_lake.with_reordered_pair,
    with_other_outcome,
)


def test_a_second_proof_knows_what_was_proven_and_finds_what_was_tampered_with_since(
    spark: Any, lake: Lake, tmp_path: Path
) -> None:
    history = history_with_failover()
    last, records = len(history.records) - 1, history.records
    land(lake, command_records(records[:-2]) + outcome_records(records[:-2]))
    assert verify_in(spark, lake, Scope(range_records=RANGE)).same_as_proven == 0
    land(lake, command_records(records) + outcome_records(records), 1)
    verdict = verify_in(spark, lake, Scope(range_records=RANGE))
    assert (verdict.exit_code, verdict.verified_up_to, verdict.same_as_proven) == (
        0,
        last,
        2 * RANGE,
    )
    assert (
        verdict.digest == history.folder.digest.hex() and verdict.commands == last + 1 - 2 * RANGE
    )
    again = verify_in(spark, lake, Scope(from_start=True, range_records=RANGE))
    assert (again.exit_code, again.verified_up_to, again.commands, again.ranges) == (
        0,
        last,
        last + 1,
        last // RANGE + 1,
    )
    part = verify_in(spark, lake, Scope(RANGE + 1, RANGE + 3, range_records=RANGE))
    assert (part.exit_code, part.from_offset, part.verified_up_to, part.commands) == (
        0,
        RANGE,
        RANGE + 3,
        4,
    )
    for number, with_tampering in enumerate(TAMPERINGS):
        copy = lake_in(tmp_path / f"copy-{number}")
        shutil.copytree(lake.root, copy.root)
        with_tampering(copy, AT)
        verdict = verify_in(spark, copy, Scope(range_records=RANGE))
        assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (
            1,
            AT,
            AT - 1,
        ), with_tampering.__name__
    cut = lake_in(tmp_path / "cut")
    shutil.copytree(lake.root, cut.root)
    tampered_lake.tamper(cut, "regent.commands", AT, lambda rows: rows[:AT])
    tampered_lake.tamper(cut, "regent.commands", last, lambda rows: [])
    verdict = verify_in(spark, cut, Scope(range_records=RANGE))
    assert (verdict.exit_code, verdict.verified_up_to) == (1, AT - 1) and (
        "its end was taken away"
    ) in verdict.text()


def test_a_part_that_has_not_landed_is_said_so(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    with pytest.raises(
        NotLanded, match=(f"command 99 has not landed: last {len(history.records) - 1}")
    ):
        verify_in(spark, lake, Scope(last=99))


def test_who_may_only_read_the_lake_can_verify_and_is_told(spark: Any, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    Path(lake.uri(PROVEN)).parent.write_text("no folder")
    verdict = verify_in(spark, lake, Scope(range_records=RANGE))
    assert verdict.exit_code == 0 and "could not be kept" in verdict.text()
