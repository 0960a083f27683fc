"""`regent verify` without Spark: what it says, and in which time."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from infra.cli import main
from infra.cli.lake.verify import verified_between
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.control_history import with_master
from tests.support.landed_log import BEGAN_MS, command_records, lake_in, land, outcome_records
from tests.support.mock_kafka import mock_kafka

RECORDS = with_master(1, 2, 3).records


def test_missing_tables_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["verify", "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err


def test_a_short_history_is_proven_without_a_java_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no java"))
    monkeypatch.setenv("PATH", "")
    tables = tmp_path / "tables"
    land(lake_in(tables), [*command_records(RECORDS), *outcome_records(RECORDS)])
    assert main.main(["verify", "--tables", str(tables)]) == EXIT_DONE
    told = capsys.readouterr()
    assert told.out.startswith(f"verified up to offset {len(RECORDS) - 1}: ")
    assert "Spark" not in told.out + told.err
    assert main.main(["verify", "--spark", "--tables", str(tables)]) == EXIT_FAILED
    assert "Java" in capsys.readouterr().err


def test_a_proof_from_and_to_offsets_or_times(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, command_records(with_master(1, 2, 3).records))
    assert verified_between(lake, None, None) == (None, None)
    assert verified_between(lake, "3", "5") == (3, 5)
    # The log took record n n seconds after midnight.
    assert verified_between(lake, "2026-01-01T00:00:03", "2026-01-01T00:00:05.5") == (3, 5)
    assert verified_between(lake, "2020-01-01", "5") == (0, 5)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "5", "--to", "3"], EXIT_USAGE, "--from 5 lies behind --to 3"),
        (["--to", "never"], EXIT_USAGE, "--to 'never' is neither an offset nor a time"),
        (["--to", "2020-01-01"], EXIT_FAILED, "no command had been taken by 2020-01-01"),
    ],
)
def test_a_proof_of_what_there_is_not_is_one_line(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), command_records(with_master(1, 2, 3).records))
    assert main.main(["verify", "--tables", str(tmp_path), *words]) == code
    assert said in capsys.readouterr().err


def test_layers_and_the_log_are_asked_beside_the_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = tmp_path / "tables"
    land(lake_in(tables), [*command_records(RECORDS), *outcome_records(RECORDS)])
    with mock_kafka() as kafka:
        producer = Producer(kafka)
        for topic, _, offset, value in [*command_records(RECORDS), *outcome_records(RECORDS)]:
            producer.produce(topic, value, partition=0, timestamp=BEGAN_MS + 1000 * offset)
        producer.flush()
        where = f"bootstrap.servers={kafka['bootstrap.servers']}"
        words = ["verify", "--tables", str(tables), "--layers", "--kafka", where]
        code = main.main(words)
    told = capsys.readouterr().out
    assert code == EXIT_DONE, told
    assert "rows are what bronze gives" in told and "are those of the log" in told


def test_a_kafka_that_nobody_named_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = tmp_path / "tables"
    land(lake_in(tables), [*command_records(RECORDS), *outcome_records(RECORDS)])
    words = ["verify", "--tables", str(tables), "--dir", str(tmp_path), "--kafka"]
    assert main.main(words) == EXIT_USAGE
    assert "not said which Kafka" in capsys.readouterr().err


def test_a_history_is_exported_and_proven_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, file = tmp_path / "tables", tmp_path / "history.gz"
    land(lake_in(tables), [*command_records(RECORDS), *outcome_records(RECORDS)])
    words = ["history", "--tables", str(tables), "--export", str(file)]
    assert main.main(words) == EXIT_DONE
    assert f"{len(RECORDS)} commands of cluster" in capsys.readouterr().out
    assert main.main(words) == EXIT_FAILED
    assert "there is such a file already" in capsys.readouterr().err
    assert main.main([*words[:3], "broker-a", *words[3:]]) == EXIT_USAGE
    assert "exported whole" in capsys.readouterr().err
    shutil.rmtree(tables)
    assert main.main(["verify", "--file", str(file)]) == EXIT_DONE
    assert capsys.readouterr().out.startswith(f"verified up to offset {len(RECORDS) - 1}")
    assert main.main(["verify", "--file", str(file), "--layers"]) == EXIT_USAGE
    assert main.main(["verify", "--file", str(tmp_path / "none")]) == EXIT_FAILED
