from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.doctor import verb
from infra.doctor.findings import FAIL
from infra.doctor.target import Target
from infra.problems import EXIT_FAILED, EXIT_USAGE
from tests.support.brokers import free_port
from tests.support.pasted import why_not


def test_a_controller_that_is_gone_ends_with_1_and_the_document_says_which_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main.main(["doctor", "--controller", address, "--json"]) == EXIT_FAILED
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"verdict", "findings"} and document["verdict"] == FAIL
    (failed,) = [one for one in document["findings"] if one["verdict"] == FAIL]
    assert set(failed) == {"area", "verdict", "text", "way_out", "command"}
    assert failed["area"] == "controllers" and why_not(failed["command"]) is None


def test_people_see_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["doctor", "--controller", f"127.0.0.1:{free_port()}"])
    text = capsys.readouterr().out
    assert (
        ("\nfail  controllers") in text
        and "→ Is it running?" in text
        and text.startswith("ok    python")
    )


def test_without_a_cluster_or_with_two_targets_it_is_wrong_usage(tmp_path: Path) -> None:
    assert main.main(["doctor", "--dir", str(tmp_path)]) == EXIT_USAGE
    assert main.main(["doctor", "--config", "a.toml", "--controller", "h:1"]) == EXIT_USAGE


def test_a_check_that_breaks_is_a_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("x")

    monkeypatch.setattr(verb.addresses, "told", broken)
    findings = verb.examine(Target())
    assert [(one.area, one.verdict) for one in findings if "RuntimeError" in one.text] == [
        ("addresses", FAIL)
    ]
    assert findings[0].area == "python"
