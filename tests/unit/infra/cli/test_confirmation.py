from __future__ import annotations

import io
import sys

import pytest

from infra.cli import confirmation
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_agreed_by_flag_asks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    confirmation.require("it goes", agreed=True)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_it_is_refused_and_the_flag_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(Problem) as raised:
        confirmation.require("it goes", agreed=False)
    assert raised.value.exit_code == EXIT_USAGE and "--yes" in raised.value.way_out


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_a_yes_at_a_terminal_goes_on(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirmation.require("it goes", agreed=False)
    assert capsys.readouterr().err == "it goes. Go on? [y/N] "


@pytest.mark.parametrize("answer", ["\n", "n\n", ""])
def test_anything_else_changes_nothing(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(Problem) as raised:
        confirmation.require("it goes", agreed=False)
    assert raised.value.exit_code == EXIT_FAILED and raised.value.what == "nothing was changed"
