"""Proofs of what was proven before: what is kept of one is held against what lies there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import deltalake
from msgspec.structs import replace

from events.codec import decode, encode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import KNOWN
from lakehouse.proof.names import older_name
from lakehouse.proof.verify import Scope, verify_here
from lakehouse.tables import delta
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER_ID
from tests.support import tampered_lake
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.proven_lake import (
    AT,
    BOTH_LONG,
    LATER,
    RANGE,
    Prove,
    altered,
    history_with_failover,
    landed,
    republished,
)


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
