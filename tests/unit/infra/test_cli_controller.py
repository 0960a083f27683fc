from __future__ import annotations

import importlib

import pytest

from infra import cli
from infra.cli_controller import SUBVERBS
from infra.problems import EXIT_DONE, EXIT_USAGE


def test_the_help_of_the_verb_that_runs_a_controller_lists_the_verbs_for_running_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["controller", "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert "--controller-id" in text, "it still runs one"
    assert all(f"\n  {name} " in text and verb.line in text for name, verb in SUBVERBS.items())


@pytest.mark.parametrize("name", SUBVERBS)
def test_every_verb_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["controller", name, "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert f"usage: regent controller {name}" in text
    assert f"regent controller {name}" in text.split("examples:")[1]


@pytest.mark.parametrize("name", SUBVERBS)
def test_every_verb_has_its_module(name: str) -> None:
    assert callable(importlib.import_module(SUBVERBS[name].module).run)


@pytest.mark.parametrize("name", SUBVERBS)
def test_an_unknown_option_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["controller", name, "--no-such-option"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"regent: controller {name}: ")


def test_an_unknown_word_names_the_nearest_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["controller", "statsu"]) == EXIT_USAGE
    assert capsys.readouterr().err == "regent: unknown command 'statsu'. Did you mean 'regent controller status'?\n"
