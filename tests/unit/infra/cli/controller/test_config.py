from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.brokers import free_port
from tests.support.scripted_leader import ScriptedLeader


@pytest.fixture
def leader() -> Iterator[ScriptedLeader]:
    with ScriptedLeader().serving() as one:
        one.shown["settings"]["all"] = {"electMasterMaxRetryCount": "3"}
        one.shown["rules_version"] = 2
        yield one


def run(leader: ScriptedLeader, *words: str) -> int:
    return main.main(["controller", "config", *words, "--controller", leader.address])


def test_the_list_says_what_was_ever_set(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader) == EXIT_DONE
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        ["electMasterMaxRetryCount", "3", "set", "by", "command"],
        ["enableElectUncleanMaster", "false", "default"],
    ]


def test_one_value_is_printed_alone(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "get", "enableElectUncleanMaster") == EXIT_DONE
    assert capsys.readouterr().out == "false\n"
    assert run(leader, "list", "--json") == EXIT_DONE
    assert json.loads(capsys.readouterr().out)["settings"]["electMasterMaxRetryCount"] == {
        "value": "3",
        "recorded": True,
    }


@pytest.mark.parametrize(
    "words", [("set", "electMasterMaxRetryCount=5"), ("set", "electMasterMaxRetryCount", "5")]
)
def test_a_change_is_one_command_and_says_what_was_before(
    words: tuple[str, ...], leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, *words) == EXIT_DONE
    assert leader.bodies() == [{"settings": {"electMasterMaxRetryCount": "5"}}]
    assert capsys.readouterr().out == "electMasterMaxRetryCount = 5 (before: 3)\n"


def test_a_refused_change_ends_with_1_and_the_remark(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[19004] = (1, {}, "SETTING_INVALID at offset 9")
    assert run(leader, "set", "electMasterMaxRetryCount=7") == EXIT_FAILED
    assert "SETTING_INVALID at offset 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "electMasterMaxRetryCount=x",
            "electMasterMaxRetryCount cannot be 'x', it takes a whole number from 1 to 100",
        ),
        (
            "enableElectUncleanMaster=maybe",
            "enableElectUncleanMaster cannot be 'maybe', it takes true or false",
        ),
    ],
)
def test_a_value_that_cannot_be_is_wrong_usage_and_says_what_can(
    word: str, said: str, leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "set", word) == EXIT_USAGE
    assert said in capsys.readouterr().err and leader.heard == []


def test_values_are_read_as_java_reads_them(leader: ScriptedLeader) -> None:
    assert run(leader, "set", "enableElectUncleanMaster= TRUE ") == EXIT_DONE
    assert leader.bodies() == [{"settings": {"enableElectUncleanMaster": "true"}}]


@pytest.mark.parametrize("words", [("--log-level", "DEBUG"), ("list", "--each")])
def test_one_controller_that_is_down_does_not_keep_the_others_from_it(
    words: tuple[str, ...], leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    down = f"127.0.0.1:{free_port()}"
    assert (
        main.main(
            ["controller", "config", *words, "--controller", f"{down};{leader.address}", "--json"]
        )
        == EXIT_FAILED
    )
    document = json.loads(capsys.readouterr().out)
    assert list(document["controllers"]) == [leader.address]
    assert document["problems"] == [
        f"controller {down}: Connection refused. Is it running, and is the address right?"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("set",),
        ("set", "a"),
        ("set", "=b"),
        ("get",),
        ("list", "a"),
        ("set", "nobodysSetting=1"),
        ("get", "electMasterMaxRetryCnt"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    words: tuple[str, ...], leader: ScriptedLeader
) -> None:
    assert run(leader, *words) == EXIT_USAGE
    assert leader.heard == []


def test_an_unknown_setting_names_the_nearest(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    run(leader, "get", "electMasterMaxRetryCnt")
    assert "Did you mean electMasterMaxRetryCount?" in capsys.readouterr().err


def test_a_log_level_goes_to_every_controller(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "--log-level", "debug", "--logger", "processors") == EXIT_DONE
    assert leader.codes() == [19007] and leader.heard[0].ext == {
        "level": "DEBUG",
        "logger": "processors",
    }
    assert capsys.readouterr().out == f"{leader.address}: logger processors at DEBUG\n"


def test_a_setting_that_changes_nothing_says_so_in_the_list_and_when_it_is_set(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.shown["settings"]["effective"]["processReadEvent"] = "false"
    assert run(leader) == EXIT_DONE
    (row,) = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("processReadEvent")
    ]
    assert "default; no effect: every read is proven to be current" in row
    assert run(leader, "set", "isProcessReadEvent=true") == EXIT_DONE
    assert "processReadEvent has no effect" in capsys.readouterr().out
