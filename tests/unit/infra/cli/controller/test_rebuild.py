"""`regent controller rebuild`: what is proven, what is refused, what is said (writing:
tests/integration).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from infra.cli.controller import rebuild as verb
from infra.cli.main import main
from infra.problems import EXIT_USAGE, Problem
from tests.support.control_history import with_master
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    flip_value_byte,
    lake_in,
    land,
    outcome_records,
)
from tests.support.mock_kafka import mock_kafka

RECORDS = with_master(1, 2, 3).records


def landed(tables: Path) -> Path:
    land(lake_in(tables), [*command_records(RECORDS), *outcome_records(RECORDS[:-1])])
    return tables


def dry_run(tables: Path, kafka: dict[str, str], *words: str) -> int:
    at = f"bootstrap.servers={kafka['bootstrap.servers']}"
    return main(
        ["controller", "rebuild", "--from-delta", str(tables), "--kafka", at, "--dry-run", *words]
    )


def test_a_dry_run_proves_the_tables_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    landed(tmp_path)
    with mock_kafka() as kafka:
        assert dry_run(tmp_path, kafka, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        assert dry_run(tmp_path, kafka, "--topic", "a.trial") == 0
    last = len(RECORDS) - 1
    assert (
        document["proven_up_to"] == last - 1
        and document["commands"] == last + 1
        and not document["written"]
    )
    said = capsys.readouterr().out
    assert (
        ("nothing was written") in said
        and "topic a.trial" in said
        and "1 commands behind offset" in said
    )


def test_a_hole_in_bronze_is_refused_with_its_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = command_records(RECORDS)
    land(lake_in(tmp_path), records[:2])
    append_to_bronze(lake_in(tmp_path), records[4:])
    with mock_kafka() as kafka:
        assert dry_run(tmp_path, kafka) == 1
    assert (
        "bronze of regent.commands has a hole: offsets 2 to 3 never landed"
    ) in capsys.readouterr().err


def test_tables_that_do_not_prove_themselves_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = [*RECORDS[:3], RECORDS[3][:-1] + bytes([RECORDS[3][-1] ^ 1]), *RECORDS[4:]]
    land(lake_in(tmp_path / "changed"), [*command_records(changed), *outcome_records(RECORDS)])
    flip_value_byte(lake_in(landed(tmp_path / "damaged")), 3)
    with mock_kafka() as kafka:
        assert dry_run(tmp_path / "damaged", kafka) == 1
        assert "table bronze/records cannot be read" in capsys.readouterr().err
        assert dry_run(tmp_path / "changed", kafka) == 1
    assert "up to offset 3 gives another digest" in capsys.readouterr().err


def test_no_tables_and_no_kafka_are_told_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Problem, match="no Kafka is named"):
        verb.kafka_of(argparse.Namespace(kafka=None, dir=tmp_path))
    assert (
        main(
            [
                "controller",
                "rebuild",
                "--from-delta",
                str(tmp_path),
                "--kafka",
                "bootstrap.servers=127.0.0.1:1",
            ]
        )
        == 1
    )
    assert "no table bronze/records" in capsys.readouterr().err


def test_what_was_restored_is_said_with_what_to_do_next() -> None:
    text = "\n".join(
        verb.lines_of(
            {
                "topic": "regent.commands",
                "commands": 10,
                "digest": "ab",
                "proven_up_to": 9,
                "outcomes": 11,
                "written": True,
            }
        )
    )
    assert (
        ("10 commands, offsets 0 to 9, restored") in text
        and "11 outcomes" in text
        and "may refuse to start" in text
    )


def test_sets_that_are_uncertain_are_said_with_what_they_wait_for() -> None:
    document = {
        "topic": "regent.commands",
        "commands": 10,
        "digest": "ab",
        "written": True,
        "uncertain_sets": ["a", "b"],
        "rules_activated": 3,
    }
    for text in (
        "\n".join(verb.lines_of_doubts(document)),
        "\n".join(verb.lines_of(document | {"proven_up_to": 9, "outcomes": 0})),
    ):
        assert (
            "uncertain: a, b." in text
            and ("rules 3 are active from there on") in text
            and "Start the controllers now" in text
        )


def test_a_log_that_stays_must_be_there_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with mock_kafka() as kafka:
        at = f"bootstrap.servers={kafka['bootstrap.servers']}"
        assert (
            main(
                [
                    "controller",
                    "rebuild",
                    "--from-log",
                    "--kafka",
                    at,
                    "--topic",
                    "a.trial",
                    "--dry-run",
                ]
            )
            == 1
        )
    assert "holds no whole history: its offsets run from 0 to 0" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--from-log", "--from-delta", "x"]])
def test_one_source_is_named(words: list[str]) -> None:
    assert main(["controller", "rebuild", *words]) == EXIT_USAGE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kafka", "k:9092"], "--kafka 'k:9092' is not KEY=VALUE"),
        (["--kafka", "security.protocol=PLAINTEXT"], "no Kafka is named"),
        (
            ["--kafka", "bootstrap.servers=h:1", "--kafka", "no.such.setting=1"],
            "does not take these settings",
        ),
    ],
)
def test_a_kafka_that_cannot_be_meant_is_wrong_usage(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    landed(tmp_path)
    assert main(["controller", "rebuild", "--from-delta", str(tmp_path), *words]) == EXIT_USAGE
    assert said in capsys.readouterr().err
