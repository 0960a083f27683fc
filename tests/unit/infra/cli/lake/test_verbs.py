import importlib

import pytest

from infra.cli import main
from infra.cli.lake.verbs import SUBVERBS
from infra.problems import EXIT_DONE, EXIT_USAGE


def test_the_verb_alone_says_which_words_may_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake"]) == EXIT_USAGE
    assert "check" in capsys.readouterr().err
    assert main.main(["lake", "--help"]) == EXIT_DONE
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text and verb.line in text for name, verb in SUBVERBS.items())


@pytest.mark.parametrize("name", SUBVERBS)
def test_every_verb_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", name, "--help"]) == EXIT_DONE
    assert f"usage: regent lake {name}" in capsys.readouterr().out
    assert callable(importlib.import_module(SUBVERBS[name].module).run)


def test_another_word_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", "chek"]) == EXIT_USAGE
    assert "regent lake check" in capsys.readouterr().err
