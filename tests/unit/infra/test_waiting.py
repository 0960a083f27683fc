from __future__ import annotations

import threading

import pytest

from infra import waiting


def test_what_is_done_soon_is_done_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with waiting.told("waiting for h:1", patience_s=60):
        pass
    assert capsys.readouterr().err == "" and threading.active_count() <= before + 1


def test_a_long_wait_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = threading.Event()
    say = waiting._say

    def saying(text: str) -> None:
        say(text)
        said.set()

    monkeypatch.setattr(waiting, "_say", saying)
    with waiting.told("waiting for h:1", patience_s=0.01):
        assert said.wait(10)
    assert capsys.readouterr().err == "regent: waiting for h:1 …\n"
