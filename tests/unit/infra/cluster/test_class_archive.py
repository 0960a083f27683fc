"""The classes of Spark and Kafka are laid out once for each Java; without them all works."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster import class_archive
from infra.cluster.class_archive import ARCHIVES
from infra.jars.java import Java, find_java
from infra.kafka.server import CLASS_ARCHIVE, LocalKafka
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
    assert class_archive.main([]) == 0
    said = capsys.readouterr().out
    assert all(f"no usable Java 17+; {one} starts without, slower" in said for one in ARCHIVES)


@pytest.mark.parametrize(("made", "word"), [(True, "done"), (False, "keeps none")])
def test_what_came_of_it_is_told(
    made: bool,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A Java that lays out classes leaves the file that its option names."""

    def work(java: Java, scratch: Path, classes: str) -> None:
        if made:
            Path(classes.partition("=")[2]).write_bytes(b"classes")

    archive, java = tmp_path / "kafka.jsa", java_at(tmp_path / "java")
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    monkeypatch.setattr(class_archive, "ARCHIVES", {"kafka": (archive, work)})
    assert class_archive.main(["kafka"]) == 0
    assert word in capsys.readouterr().out and archive.exists() == made
    assert class_archive.main(["kafka"]) == 0 and capsys.readouterr().out == ""


@pytest.mark.kafka
def test_kafka_starts_with_the_classes_that_were_laid_out(tmp_path: Path) -> None:
    java, archive = find_java(), CLASS_ARCHIVE
    if not class_archive.is_made(java, archive):
        archive = tmp_path / "kafka.jsa"
        class_archive.make(java, archive, ARCHIVES["kafka"][1])
    if not archive.exists():
        pytest.skip(f"{java} makes no archive")
    with LocalKafka(tmp_path / "node", classes=f"-XX:SharedArchiveFile={archive}") as kafka:
        mapped = Path(f"/proc/{kafka.children[1].pid}/maps").read_text()
    assert str(archive) in mapped
