"""Spark's classes are laid out once for each Java; without them all works."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.jars import class_archive
from infra.jars.java import Java
from infra.problems import Problem


def java_at(home: Path, release: str = "17") -> Java:
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(release)
    return Java(home, 17, "test")


def test_it_is_made_once_for_a_java_and_anew_for_another(tmp_path: Path) -> None:
    one, other = java_at(tmp_path / "a"), java_at(tmp_path / "b")
    archive = tmp_path / "spark.jsa"
    assert not class_archive.is_made(one, archive)
    archive.with_suffix(".of").write_text(class_archive.made_of(one))
    assert class_archive.is_made(one, archive) and not class_archive.is_made(other, archive)
    (one.home / "release").write_text("17.0.1")
    assert not class_archive.is_made(one, archive)


def test_what_hinders_it_is_told_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere() -> Java:
        raise Problem("no usable Java 17+", "")

    monkeypatch.setattr(class_archive, "find_java", nowhere)
    assert class_archive.main() == 0
    assert "no usable Java 17+; Spark starts without, slower" in capsys.readouterr().out


@pytest.mark.parametrize(("made", "word"), [(True, "done"), (False, "keeps none")])
def test_what_came_of_it_is_told(
    made: bool,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(class_archive, "find_java", lambda: java_at(tmp_path))
    monkeypatch.setattr(class_archive, "make", lambda java: made)
    assert class_archive.main() == 0
    assert word in capsys.readouterr().out
