from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.cli import main
from infra.cli.controller.verbs import SUBVERBS
from infra.controllers.admin import ControllerAdmin
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.controller_document import document
from tests.support.controller_rig import SET, Rig
from tests.support.core_server import serving_core


def test_the_help_of_the_verb_that_runs_a_controller_lists_the_verbs_for_running_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["controller", "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert "--controller-id" in text, "it still runs one"
    assert all(f"\n  {name} " in text and verb.line in text for name, verb in SUBVERBS.items())


@pytest.mark.parametrize("name", SUBVERBS)
def test_every_verb_explains_itself_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["controller", name, "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert f"usage: regent controller {name}" in text
    assert f"regent controller {name}" in text.split("examples:")[1]


@pytest.mark.parametrize("name", SUBVERBS)
def test_every_verb_has_its_module(name: str) -> None:
    assert callable(importlib.import_module(SUBVERBS[name].module).run)


@pytest.mark.parametrize("name", SUBVERBS)
def test_an_unknown_option_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["controller", name, "--no-such-option"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"regent: controller {name}: ")


def test_an_unknown_word_names_the_nearest_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["controller", "statsu"]) == EXIT_USAGE
    assert capsys.readouterr().err == (
        "regent: unknown command 'statsu'. Did you mean 'regent controller status'?\n"
    )


# -- against a real core ---------------------------------------------------------------------------


class Served:
    """A leader with a set of three, and the command line pointed at it."""

    def __init__(self, rig: Rig, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.rig = rig
        self.address = address
        self._capsys = capsys

    def run(self, *words: str, code: int = EXIT_DONE) -> str:
        assert main.main(["controller", *words, "--controller", self.address]) == code, (
            self._capsys.readouterr().err
        )
        captured = self._capsys.readouterr()
        return captured.out or captured.err

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def served(capsys: pytest.CaptureFixture[str]) -> Iterator[Served]:
    rig = Rig().lead().three()
    rig.request(
        1013,
        {
            "clusterName": "C",
            "brokerName": SET,
            "appliedBrokerId": "4",
            "registerCheckCode": "b4:10911;1",
        },
        conn=4,
    )
    with serving_core(rig) as address:
        yield Served(rig, address, capsys)


def keys(value: Any) -> Any:
    """The shape of a document: names, without values; sets and lists by their first element."""
    if isinstance(value, dict):
        return {name: keys(one) for name, one in value.items()}
    return (
        keys(value[0]) if isinstance(value, list) and value and isinstance(value[0], dict) else None
    )


def test_the_document_of_a_real_core_has_the_shape_that_the_verbs_are_tested_with(
    served: Served,
) -> None:
    real, expected = ControllerAdmin([served.address]).state(), document()
    one, other = real["sets"].pop(SET), expected["sets"].pop("broker-a")
    one["repeated_refusals"] = other["repeated_refusals"] = []
    assert keys(one) == keys(other)
    real["settings"], expected["settings"] = sorted(real["settings"]), sorted(expected["settings"])
    assert set(keys(real)) >= set(keys(expected)) and set(real["controllers"][0]) >= set(
        expected["controllers"][0]
    )


def test_sets_set_and_ids_show_what_the_core_holds(served: Served) -> None:
    assert served.json("sets")["sets"][SET]["sync_state_set"] == [1, 2, 3]
    assert served.json("set", SET)["master"] == 1
    ids = served.json("ids", SET)["sets"][SET]
    assert [one["id"] for one in ids["assigned"]] == [1, 2, 3] and ids["unclaimed"] == [
        {"id": 4, "address": "b4:10911"}
    ]
    assert ids["next_broker_id"] == 5


def test_an_unclaimed_id_is_cleaned_and_not_given_out_again(served: Served) -> None:
    served.run("clean", SET, "--unclaimed", "--yes")
    found = served.json("ids", SET)["sets"][SET]
    assert found["unclaimed"] == [] and found["next_broker_id"] == 5


def test_a_mastership_moves_to_the_named_replica(served: Served) -> None:
    done = served.json("elect", SET, "2")
    assert (done["result"], done["master"]) == ("elected", 2)
    assert served.rig.state.sets[SET].master_broker_id == 2
    assert served.json("elect", SET)["result"] == "kept"


def test_a_changed_setting_is_in_the_log(served: Served) -> None:
    before = served.rig.folder.offset
    served.run("config", "set", "electMasterMaxRetryCount=7")
    assert served.run("config", "get", "electMasterMaxRetryCount") == "7\n"
    assert served.rig.folder.offset == before + 1
    assert "set by command" in served.run("config")
    assert ("a whole number from 1 to 100") in served.run(
        "config", "set", "electMasterMaxRetryCount=none", code=EXIT_USAGE
    )


def test_what_a_controller_was_started_with_is_shown_by_rocketmqs_names(served: Served) -> None:
    assert "enableElectUncleanMaster" in served.run("config", "list", "--each")


def test_the_newest_rules_are_active_in_a_new_cluster(served: Served) -> None:
    plan = served.json("upgrade", "--dry-run")
    assert plan["active_already"] and plan["blockers"] == []


def test_a_status_names_the_leader(served: Served) -> None:
    """The rig's own address is none that can be asked, so one problem is told."""
    text = served.run("status", code=EXIT_FAILED)
    view = json.loads(served.run("status", "--json", code=EXIT_FAILED))
    assert set(view) == {
        "cluster_id",
        "term",
        "leader",
        "leader_address",
        "rules_version",
        "supported_rules",
        "applied_offset",
        "digest",
        "controllers",
        "problems",
    }
    assert set(view["controllers"][0]) == {
        "id",
        "address",
        "role",
        "answers",
        "alive",
        "release",
        "rules",
        "ready",
        "applied_offset",
        "end_offset",
        "log_answers",
        "published_offset",
        "http_address",
    }
    assert "c1 at c1:9878 leads" in text and "problem: c1 at c1:9878 does not answer" in text


def test_an_unclean_election_brings_a_master_back_at_risk_and_leaves_the_setting_as_it_was(
    served: Served,
) -> None:
    rig = served.rig
    assert rig.alter("1", rig.state.sets[SET].sync_state_set_epoch).code == 0
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert "election of a" in served.run("elect", SET, "2", code=EXIT_FAILED)
    done = served.json("elect", SET, "2", "--unclean", "--yes")
    assert (done["result"], done["master"]) == ("elected", 2)
    assert served.run("config", "get", "enableElectUncleanMaster") == "false\n"
    assert served.json("set", SET)["master"] == 2
