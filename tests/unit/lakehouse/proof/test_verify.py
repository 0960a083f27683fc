"""The proof over small tables, in this process; what Spark does of it, in a real session too."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, RoleChanged
from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import NotLanded
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import Scope, unproven_commands, verify_here
from lakehouse.tables import delta
from lakehouse.tables.delta import active_files, ensure_tables
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Loss, loss_rows
from lakehouse.tables.specs import ACCEPTED, BRONZE, LOSSES
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    event_records,
    flip_value_byte,
    lake_in,
    land,
    outcome_records,
)
from tests.support.proven_lake import BOTH, RANGE, Prove, history_with_failover


@BOTH
def test_whole_history_is_verified_up_to_its_last_command(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    verdict = prove(lake)
    last = len(history.records) - 1
    assert (verdict.exit_code, verdict.verified_up_to) == (0, last)
    assert verdict.digest == history.folder.digest.hex()
    assert verdict.commands == verdict.compared == last + 1
    assert verdict.unreadable == 1
    assert verdict.publishers == ["n0"]
    assert f"verified up to offset {last}" in verdict.text()
    assert json.loads(json.dumps(verdict.as_dict()))["verified_up_to"] == last


@BOTH
def test_one_flipped_byte_is_named_by_its_offset(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    flip_value_byte(lake, 7)
    verdict = prove(lake)
    assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (1, 7, 6)
    assert "at offset 7" in verdict.text()


def test_a_missing_command_is_named(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    records = command_records(history.records)
    land(lake, records[:5] + outcome_records(history.records))
    # As if a file of bronze had been lost: the landing job itself refuses such a batch.
    append_to_bronze(lake, records[7:])
    verdict = prove(lake)
    assert (verdict.exit_code, verdict.missing, verdict.verified_up_to) == (1, [[5, 6]], 4)
    assert "missing in bronze/records: regent.commands-0 offsets 5 to 6" in verdict.text()


def test_noted_losses_are_notices_and_an_accepted_gap_of_outcomes_is_no_problem(lake: Lake) -> None:
    history = history_with_failover()
    outcomes, events = outcome_records(history.records), event_records([b"x"] * 9, 2)
    land(lake, command_records(history.records) + outcomes[:3] + events[:4])
    for rows in (outcomes[5:], events[6:]):
        append_to_bronze(lake, rows)
    verdict = verify_here(lake)
    assert verdict.exit_code == 1 and "offsets 3 to 4 right before it never landed" in (
        verdict.text()
    ), "a gap that nobody noted"
    noted = [
        Loss(BROKER_EVENTS_TOPIC, 2, 4, 5),
        Loss(OUTCOMES_TOPIC, 0, 3, 4, ACCEPTED),
        Loss(BROKER_EVENTS_TOPIC, 2, 0, 0),
    ]
    delta.OpenTables(lake).append(LOSSES, loss_rows(str(lake.cluster_id), noted))
    verdict = verify_here(lake)
    assert (verdict.exit_code, verdict.verified_up_to) == (0, len(history.records) - 1)
    assert [one for one in verdict.notices if one.startswith("noted loss: ")] == [
        f"noted loss: {one.said}" for one in noted[:2]
    ], "0 has landed after all"
    assert f"  noted loss: {noted[0].said}" in verdict.text().splitlines()


def test_an_accepted_gap_of_commands_is_named_and_proves_nothing_behind_it(lake: Lake) -> None:
    history = history_with_failover()
    records = command_records(history.records)
    land(lake, records[:5] + outcome_records(history.records))
    append_to_bronze(lake, records[7:])
    noted = Loss(COMMANDS_TOPIC, 0, 5, 6, ACCEPTED)
    delta.OpenTables(lake).append(LOSSES, loss_rows(str(lake.cluster_id), [noted]))
    verdict = verify_here(lake)
    assert (verdict.exit_code, verdict.missing, verdict.verified_up_to) == (1, [[5, 6]], 4)
    assert f"noted loss: {noted.said}" in verdict.notices


@BOTH
def test_a_damaged_file_is_named_with_its_offsets(prove: Prove, lake: Lake) -> None:
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
    verdict = prove(lake)
    assert (verdict.exit_code, verdict.missing) == (1, [[5, 6]])
    assert [path.name in problem for problem in verdict.problems] == [True]
    assert "Delta's log says" not in verdict.text()
    assert "put it back from a copy" in verdict.problems[0]


def test_commands_without_outcome_are_counted_as_unproven(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    outcomes = outcome_records(history.records)[:-3]
    land(lake, command_records(history.records) + outcomes)
    verdict = prove(lake)
    last = len(history.records) - 1
    assert (verdict.exit_code, verdict.unproven, verdict.verified_up_to) == (0, 3, last - 3)


@BOTH
def test_an_outcome_published_twice_counts_once(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    outcomes = outcome_records(history.records)
    again = [(t, p, o + len(outcomes), v) for t, p, o, v in outcome_records(history.records, "n1")]
    land(lake, command_records(history.records) + outcomes + again)
    verdict = prove(lake)
    assert (verdict.exit_code, verdict.compared) == (0, len(outcomes))
    assert verdict.publishers == ["n0", "n1"]


def test_an_outcome_that_says_something_else_is_a_mismatch(prove: Prove, lake: Lake) -> None:
    """The digest alone would not show it: it is copied from the right outcome."""
    history = history_with_failover()
    outcomes = outcome_records(history.records)
    topic, partition, offset, value = outcomes[9]
    lie = encode(replace(decode(value or b""), cause="another"))
    outcomes[9] = (topic, partition, offset, lie)
    land(lake, command_records(history.records) + outcomes)
    assert prove(lake).first_mismatch == 9


def test_two_masters_in_one_epoch_are_a_problem(prove: Prove, lake: Lake) -> None:
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
    verdict = prove(lake)
    assert verdict.exit_code == 1
    assert verdict.problems == ["broker-a: brokers [2, 3] were masters in epoch 2"]


def test_nothing_landed_is_said_so(prove: Prove, lake: Lake) -> None:
    ensure_tables(lake)
    with pytest.raises(NotLanded, match="no commands have landed"):
        prove(lake)


def test_nothing_published_proves_nothing(prove: Prove, lake: Lake) -> None:
    land(lake, command_records(history_with_failover().records))
    verdict = prove(lake)
    assert (verdict.exit_code, verdict.verified_up_to) == (1, -1)


def test_an_unproven_verdict_is_not_a_success() -> None:
    verdict = Verdict(verified_up_to=-1, digest=None, commands=0, compared=0, unproven=0)
    assert verdict.exit_code == 1


def test_a_part_that_has_not_landed_is_said_so(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    with pytest.raises(
        NotLanded, match=(f"command 99 has not landed: last {len(history.records) - 1}")
    ):
        prove(lake, Scope(last=99))


def test_who_may_only_read_the_lake_can_verify_and_is_told(prove: Prove, lake: Lake) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    Path(lake.uri(PROVEN)).parent.write_text("no folder")
    verdict = prove(lake, Scope(range_records=RANGE))
    assert verdict.exit_code == 0 and "could not be kept" in verdict.text()


def test_how_much_is_unproven_says_who_folds_it(lake: Lake) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    count = len(history.records)
    land(lake, command_records(history.records) + outcome_records(history.records))
    assert unproven_commands(lake, scope) == count
    verify_here(lake, scope)
    assert unproven_commands(lake, scope) == count - 2 * RANGE
    assert unproven_commands(lake, Scope(from_start=True, range_records=RANGE)) == count
    assert unproven_commands(lake, Scope(3, 6, range_records=RANGE)) == 4
    for file in active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC,))[COMMANDS_TOPIC]:
        Path(file.removeprefix("file://")).unlink()
    assert unproven_commands(lake, Scope(from_start=True)) == 0, "the proof says what is gone"


def test_the_history_of_another_cluster_is_told(tmp_path: Path) -> None:
    history, other = history_with_failover(), lake_in(tmp_path, "other")
    land(other, command_records(history.records) + outcome_records(history.records))
    verdict = verify_here(other)
    assert verdict.exit_code == 1
    assert "and lie there as those of other" in verdict.text()


@pytest.mark.parametrize("count", [1, RANGE, 2 * RANGE])
def test_an_honest_lake_of_any_length_is_proven_again_and_again_also_when_cared_for(
    lake: Lake, count: int
) -> None:
    records, scope = history_with_failover().records[:count], Scope(range_records=RANGE)
    early = records[: max(1, count // 2)]
    land(lake, command_records(early) + outcome_records(early))
    land(lake, command_records(records) + outcome_records(records), 1)
    for again in (scope, scope, Scope(from_start=True, range_records=RANGE)):
        verdict = verify_here(lake, again)
        assert (verdict.exit_code, verdict.verified_up_to) == (0, count - 1)
    bronze = delta.open_table(lake, BRONZE)
    bronze.optimize.compact()
    bronze.vacuum(0, dry_run=False, enforce_retention_duration=False)
    bronze.create_checkpoint()
    verdict = verify_here(lake, scope)
    assert (verdict.exit_code, verdict.same_as_proven) == (0, count // RANGE * RANGE)
    assert verdict.notices == []
