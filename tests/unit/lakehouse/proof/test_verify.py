"""The proof over small tables, in this process; what Spark does of it, in a real session too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, RoleChanged
from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import NotLanded
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import KNOWN
from lakehouse.proof.names import older_name
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import Scope, unproven_commands, verify_here, verify_in
from lakehouse.tables import delta
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import active_files, ensure_tables
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Loss, loss_rows
from lakehouse.tables.specs import ACCEPTED, BRONZE, CLUSTER_ID, LOSSES
from tests.support import tampered_lake
from tests.support.control_history import History, seen, with_master
from tests.support.examples import some
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    event_records,
    flip_value_byte,
    lake_in,
    land,
    outcome_records,
)

Prove = Callable[..., Verdict]
BOTH = pytest.mark.parametrize(
    "prove", ["here", pytest.param("in Spark", marks=pytest.mark.spark)], indirect=True
)
BOTH_LONG = pytest.mark.parametrize(
    "prove",
    ["here", pytest.param("in Spark", marks=[pytest.mark.spark, pytest.mark.long])],
    indirect=True,
)


@pytest.fixture
def prove(request: pytest.FixtureRequest) -> Prove:
    """The proof in this process, or in the session's Spark."""
    if getattr(request, "param", "here") == "here":
        return verify_here
    return partial(verify_in, request.getfixturevalue("spark"))


def history_with_failover() -> History:
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    history.append(b"garbage")
    return history


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


@BOTH_LONG
def test_a_second_proof_knows_what_was_proven_and_finds_what_was_tampered_with_since(
    prove: Prove, lake: Lake, tmp_path: Path
) -> None:
    history = history_with_failover()
    last, records = len(history.records) - 1, history.records
    land(lake, command_records(records[:-2]) + outcome_records(records[:-2]))
    assert prove(lake, Scope(range_records=RANGE)).same_as_proven == 0
    land(lake, command_records(records) + outcome_records(records), 1)
    verdict = prove(lake, Scope(range_records=RANGE))
    assert (verdict.exit_code, verdict.verified_up_to, verdict.same_as_proven) == (
        0,
        last,
        2 * RANGE,
    )
    assert (
        verdict.digest == history.folder.digest.hex() and verdict.commands == last + 1 - 2 * RANGE
    )
    again = prove(lake, Scope(from_start=True, range_records=RANGE))
    assert (again.exit_code, again.verified_up_to, again.commands, again.ranges) == (
        0,
        last,
        last + 1,
        last // RANGE + 1,
    )
    part = prove(lake, Scope(RANGE + 1, RANGE + 3, range_records=RANGE))
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
        verdict = prove(copy, Scope(range_records=RANGE))
        assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (
            1,
            AT,
            AT - 1,
        ), with_tampering.__name__
        assert "offsets 5 to 9: not what was proven at" in verdict.text()
    cut = lake_in(tmp_path / "cut")
    shutil.copytree(lake.root, cut.root)
    tampered_lake.tamper(cut, "regent.commands", AT, lambda rows: rows[:AT])
    tampered_lake.tamper(cut, "regent.commands", last, lambda rows: [])
    verdict = prove(cut, Scope(range_records=RANGE))
    assert (verdict.exit_code, verdict.verified_up_to) == (1, AT - 1) and (
        "the end was taken away"
    ) in verdict.text()


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


def landed(lake: Lake) -> int:
    """A history with events, proven once; gives how many commands it has."""
    history = history_with_failover()
    events = [
        encode(
            RoleChanged(
                BrokerEventHeader(bytes(16), "c", "broker-a", i, "i", 1, 1), "SLAVE", 2, 2, "n"
            )
        )
        for i in (1, 2, 3)
    ]
    land(
        lake,
        command_records(history.records)
        + outcome_records(history.records)
        + event_records(events, 0)
        + event_records(events[:2], 1),
    )
    first = verify_here(lake)
    assert first.exit_code == 0 and "named for the first time" in first.text()
    again = verify_here(lake)
    assert (again.exit_code, again.findings, again.notices) == (0, [], [])
    return len(history.records)


def altered(at: int, **columns: Any) -> Callable[[list[Any]], list[Any]]:
    """Other values in these columns of the row at a place in its file."""
    return lambda rows: [*rows[:at], rows[at] | columns, *rows[at + 1 :]]


def republished(at: int, **fields: Any) -> Callable[[list[Any]], list[Any]]:
    """An outcome that says something else, where the fold does not say what is right."""

    def change(rows: list[Any]) -> list[Any]:
        lie = encode(replace(decode(rows[at]["value"]), **fields))
        return [*rows[:at], rows[at] | {"value": lie}, *rows[at + 1 :]]

    return change


LATER = datetime(2030, 1, 1, tzinfo=UTC)
QUIET_ALTERATIONS = {
    "publisher": (OUTCOMES_TOPIC, 0, republished(3, publisher="evil")),
    "phases": (OUTCOMES_TOPIC, 0, republished(3, phases={"applied": 1})),
    "time of publishing": (OUTCOMES_TOPIC, 0, republished(3, published_at_ms=1)),
    "outcome twice": (OUTCOMES_TOPIC, 0, lambda rows: [*rows, rows[3]]),
    "timestamp": (COMMANDS_TOPIC, 0, altered(3, timestamp=LATER)),
    "timestamp's type": (COMMANDS_TOPIC, 0, altered(3, timestamp_type=1)),
    "key": (COMMANDS_TOPIC, 0, altered(3, key=b"key")),
    "event": (BROKER_EVENTS_TOPIC, 0, altered(2, value=b"x")),
    "event of another partition": (BROKER_EVENTS_TOPIC, 1, altered(1, timestamp=LATER)),
    "when it landed": (BROKER_EVENTS_TOPIC, 0, altered(1, landed_at=LATER)),
    "batch": (COMMANDS_TOPIC, 0, altered(1, batch=77)),
}


@pytest.mark.parametrize("what", some(QUIET_ALTERATIONS))
def test_what_the_fold_does_not_see_is_found_by_its_name(lake: Lake, what: str) -> None:
    landed(lake)
    topic, partition, change = QUIET_ALTERATIONS[what]
    tampered_lake.tamper(lake, topic, 1, change, partition)
    [told] = verify_here(lake).problems
    assert "Delta's log says" in told and f"{topic}-{partition} offsets 0 to" in told
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake)
    assert (verdict.exit_code, verdict.problems) == (1, []) and verdict.first_mismatch is None
    assert {(one.topic, one.partition) for one in verdict.findings} == {(topic, partition)}
    assert f"bronze/records, {topic}-{partition} offset" in verdict.text()
    assert "not what was proven at" in verdict.text()
    assert verify_here(lake, Scope(from_start=True)).findings == verdict.findings
    assert verify_here(lake).findings == verdict.findings, "it does not become proven by itself"


def test_what_is_other_and_right_is_taken_for_proven_when_asked_to(lake: Lake) -> None:
    landed(lake)
    tampered_lake.tamper(lake, COMMANDS_TOPIC, 1, altered(3, batch=77))
    tampered_lake.with_sizes_put_right(lake)
    renewed = verify_here(lake, Scope(renew=True))
    assert renewed.exit_code == 0 and "taken for proven as it is now" in renewed.text()
    assert (verify_here(lake).exit_code, verify_here(lake).notices) == (0, [])


def test_what_does_not_fold_is_not_taken_for_proven_when_asked_to(lake: Lake) -> None:
    landed(lake)
    tampered_lake.with_changed_byte(lake, 7)
    assert verify_here(lake, Scope(renew=True)).first_mismatch == 7
    verdict = verify_here(lake)
    assert "not what was proven at" in verdict.text() and verdict.exit_code == 1


@pytest.mark.parametrize("topic", [COMMANDS_TOPIC, OUTCOMES_TOPIC, BROKER_EVENTS_TOPIC])
def test_an_end_that_was_taken_away_is_found_in_the_shortest_history(
    lake: Lake, topic: str
) -> None:
    last = landed(lake) - 1
    at = 2 if topic == BROKER_EVENTS_TOPIC else last
    tampered_lake.tamper(lake, topic, at, lambda rows: rows[:-1])
    verdict = verify_here(lake)
    assert verdict.exit_code == 1
    assert f"{topic}-0 offset {at}: bronze ends at offset {at - 1}" in verdict.text()
    assert "the end was taken away; put the files and commits back" in verdict.text()


def test_what_lands_later_is_proven_and_named_without_a_word(lake: Lake) -> None:
    history = history_with_failover()
    records = history.records
    land(lake, command_records(records[:-3]) + outcome_records(records[:-3]))
    verify_here(lake)
    land(lake, command_records(records[:-1]), 1)  # The outcomes come later.
    between = verify_here(lake)
    assert (between.exit_code, between.unproven, between.notices) == (0, 2, [])
    land(lake, command_records(records) + outcome_records(records), 2)
    assert (verify_here(lake).exit_code, verify_here(lake).notices) == (0, [])
    tampered_lake.tamper(lake, COMMANDS_TOPIC, len(records) - 2, altered(0, timestamp=LATER))
    assert verify_here(lake).exit_code == 1


def as_an_older_release_kept_it(lake: Lake) -> None:
    """Names over offset and value alone, no column that says so, and no names of blocks."""
    rows = delta.read(lake, PROVEN)
    files = BronzeFiles(lake)
    names = [
        older_name(
            files.rows(
                (row["topic"], 0),
                row["number"] * RANGE,
                (row["number"] + 1) * RANGE,
                ("offset", "value"),
            )
        )
        for row in rows.to_pylist()
    ]
    place = rows.schema.get_field_index("bytes_name")
    rows = rows.set_column(place, rows.schema.field(place), [names]).drop_columns(["naming"])
    shutil.rmtree(Path(lake.uri(PROVEN)).parent)
    deltalake.write_deltalake(lake.uri(PROVEN), rows, partition_by=[CLUSTER_ID])


def test_a_proof_of_an_older_release_is_made_anew_once_and_says_so(lake: Lake) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    land(lake, command_records(history.records) + outcome_records(history.records))
    verify_here(lake, scope)
    as_an_older_release_kept_it(lake)
    verdict = verify_here(lake, scope)
    assert (verdict.exit_code, verdict.same_as_proven) == (0, 0)
    assert "4 pieces were proven by an earlier release" in verdict.text()
    again = verify_here(lake, scope)
    assert (again.exit_code, again.same_as_proven, again.notices) == (0, 2 * RANGE, [])


def test_what_an_older_release_had_proven_is_held_against_its_names_first(lake: Lake) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    land(lake, command_records(history.records) + outcome_records(history.records))
    verify_here(lake, scope)
    as_an_older_release_kept_it(lake)
    tampered_lake.tamper(lake, OUTCOMES_TOPIC, AT, republished(AT, publisher="evil"))
    for _ in range(2):
        verdict = verify_here(lake, scope)
        assert verdict.exit_code == 1
        assert f"{OUTCOMES_TOPIC}-0 offsets 5 to 9: a value is not what it was" in verdict.text()


def test_kept_names_that_cannot_be_read_are_said_and_not_passed_over(lake: Lake) -> None:
    landed(lake)
    for path in Path(lake.uri(KNOWN)).glob("**/*.parquet"):
        path.unlink()
    assert "what earlier proofs kept is not compared: table proof/names" in verify_here(lake).text()


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


def without_names(lake: Lake, keep: Callable[[Any], bool]) -> None:
    rows = [row for row in delta.read(lake, KNOWN).to_pylist() if keep(row)]
    shutil.rmtree(lake.uri(KNOWN))
    ensure_tables(lake, (KNOWN,))
    delta.append_rows(lake, KNOWN, rows)


def test_names_that_were_taken_away_of_one_piece_are_told(lake: Lake) -> None:
    history, scope = history_with_failover(), Scope(range_records=RANGE)
    land(lake, command_records(history.records) + outcome_records(history.records))
    assert verify_here(lake, scope).exit_code == 0
    without_names(lake, lambda row: (row["topic"], row["number"]) != (OUTCOMES_TOPIC, 0))
    tampered_lake.tamper(lake, OUTCOMES_TOPIC, 3, republished(3, publisher="evil"))
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake, scope)
    assert verdict.exit_code == 1
    assert f"proof/names has no name of {OUTCOMES_TOPIC}-0 offsets 0 to 4" in verdict.text()
    assert f"{OUTCOMES_TOPIC}-0 offsets 0 to 4: not what was proven, by proof/pieces" in (
        verdict.text()
    )


def test_names_that_were_taken_away_of_one_partition_are_told(lake: Lake) -> None:
    landed(lake)
    without_names(lake, lambda row: row["topic"] != BROKER_EVENTS_TOPIC or row["partition"] != 0)
    assert verify_here(lake).notices == [
        f"3 records of {BROKER_EVENTS_TOPIC}-0 are named for the first time"
    ]


def swapped(rows: list[Any]) -> list[Any]:
    return [
        *rows[:3],
        rows[3] | {"value": rows[4]["value"]},
        rows[4] | {"value": rows[3]["value"]},
        *rows[5:],
    ]


FIRST_PROOF_ALTERATIONS = {
    "two outcomes exchanged": (OUTCOMES_TOPIC, swapped),
    "an outcome gone, the others moved up": (
        OUTCOMES_TOPIC,
        lambda rows: tampered_lake.renumbered([*rows[:3], *rows[4:]]),
    ),
}


@pytest.mark.parametrize("what", FIRST_PROOF_ALTERATIONS)
def test_outcomes_that_moved_are_found_by_a_first_proof(lake: Lake, what: str) -> None:
    history = history_with_failover()
    land(lake, command_records(history.records) + outcome_records(history.records))
    topic, change = FIRST_PROOF_ALTERATIONS[what]
    tampered_lake.tamper(lake, topic, 3, change)
    tampered_lake.with_sizes_put_right(lake)
    verdict = verify_here(lake)
    assert verdict.exit_code == 1
    assert "offset 3: it is about command 4, and none before it about command 3" in verdict.text()


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
