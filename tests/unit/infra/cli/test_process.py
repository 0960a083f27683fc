import logging
from pathlib import Path

import pytest

from infra.cli import main, process
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem
from processors.process import controller

BROKEN = ["=", "no_such_setting = 1", 'listen = "nowhere"', "\x00"]


@pytest.mark.parametrize("verb", process.RUNNABLE)
@pytest.mark.parametrize("text", BROKEN)
def test_an_unreadable_configuration_is_one_line_with_the_file(
    verb: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "process.toml"
    path.write_text(text)
    assert main.main([verb, "--config", str(path)]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(path) in error


@pytest.mark.parametrize("verb", process.RUNNABLE)
def test_a_missing_configuration_is_named(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([verb, "--config", str(tmp_path / "none.toml")]) == EXIT_USAGE
    assert "does not exist" in capsys.readouterr().err


def test_flags_become_fields_lists_and_tables() -> None:
    words = [
        "--listen",
        "0.0.0.0:1",
        "--controllers",
        "a:1",
        "--controllers",
        "b:2",
        "--kafka",
        "security.protocol=SSL",
        "--kafka",
        "sasl.jaas.config=a=b",
        "--no-all-ack",
        "--ack-timeout-ms",
        "500",
    ]
    given = process.overrides(main.parser_of("broker").parse_args(words), "broker")
    assert given == {
        "listen": "0.0.0.0:1",
        "controllers": ["a:1", "b:2"],
        "all_ack": False,
        "ack_timeout_ms": 500,
        "kafka": {"security.protocol": "SSL", "sasl.jaas.config": "a=b"},
    }


def test_an_entry_that_is_no_pair_is_wrong_usage() -> None:
    parsed = main.parser_of("broker").parse_args(["--kafka", "nonsense"])
    with pytest.raises(Problem, match="not KEY=VALUE"):
        process.overrides(parsed, "broker")


@pytest.mark.parametrize("verb", process.RUNNABLE)
def test_every_field_of_the_model_is_a_flag(verb: str) -> None:
    flags = {option for action in main.parser_of(verb)._actions for option in action.option_strings}
    model = process._model(verb)
    assert {f"--{name.replace('_', '-')}" for name in model.model_fields} <= flags


def test_a_controllers_configuration_is_printed_as_java_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(
        "controllerDLegerPeers = n0-10.0.0.1:9878\ncontrollerDLegerSelfId = "
        "n0\ncontrollerStorePath = d\nkafka.bootstrap.servers = k:1\n"
    )
    assert main.main(["controller", "-p", "-c", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "controllerDLegerSelfId=n0" in lines
        and "enableElectUncleanMaster=false" in lines
        and lines == sorted(lines)
    )


def test_two_files_are_wrong_usage_because_one_would_silently_win(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["controller", "-c", "a.toml", "-c", "b.properties"]) == EXIT_USAGE
    assert "a.toml is named already, one file only" in capsys.readouterr().err


def test_what_is_noted_about_a_file_is_said_beside_the_configuration_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(
        "controller_id=c1\ndata_dir=d\nkafka.bootstrap.servers=k:1\nmappedFileSize=1\n",
        encoding="utf-8",
    )
    assert main.main(["controller", "-c", str(path), "-p"]) == EXIT_DONE
    said = capsys.readouterr()
    assert "mappedFileSize=1\n" in said.out and said.err == (
        "regent: configuration: mappedFileSize has no meaning here: Kafka keeps the log\n"
    )


def test_what_a_file_asks_for_and_does_not_get_is_a_warning_when_the_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(
        "controller_id=c1\ndata_dir=d\nkafka.bootstrap.servers=k:1\nmappedFileSize=1\n"
        "metricsExporterType=OTLP_GRPC\nmetricsInDelta=true\nprocessReadEvent=true\n",
        encoding="utf-8",
    )

    async def nothing(config: object) -> int:
        return EXIT_DONE

    monkeypatch.setattr(controller, "run", nothing)
    monkeypatch.setattr(process.process_logging, "configure", lambda *_: None)
    caplog.set_level(logging.INFO)
    assert main.main(["controller", "-c", str(path)]) == EXIT_DONE
    noted = [
        record for record in caplog.records if record.getMessage().startswith("configuration:")
    ]
    warned = [record.getMessage() for record in noted if record.levelno == logging.WARNING]
    assert len(noted) == 4 and [line.split()[1] for line in warned] == [
        "metricsExporterType",
        "metricsInDelta",
    ]
    assert all("is not served" in line for line in warned)


def test_help_says_what_a_setting_is_for_and_what_holds_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main.main(["controller", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--snapshots-kept N how many snapshots are kept; default 3" in text
    main.main(["land", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "land on without them. Any other gap is refused; may repeat" in text


def test_a_loss_that_names_no_gap_is_wrong_usage_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--kafka", "bootstrap.servers=k:1", "--tables", "t", "--checkpoint-dir", "c"]
    gap = ["--accept-loss", "regent.commands/0:9-5"]
    assert main.main(["land", *words, "--jars-dir", "j", *gap]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "write TOPIC/PARTITION:FROM-TO" in error
