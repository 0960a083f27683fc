"""What ends a landing job is one sentence; Java's stack is in a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from lakehouse import troubles
from lakehouse.errors import LakehouseError
from lakehouse.troubles import SparkFailed, error_text, java_words_go_to, note_java

STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to
stage failure. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: first [id = 1, runId = 2]

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: Job aborted
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
"""
LOST = f"{STREAM}Caused by: x.OffsetOutOfRangeException: Offsets out of range\n"
FULL = f"{STREAM}Caused by: java.io.IOException: No space left on device\n\tat x.y(Z.java:1)\n"


@pytest.fixture
def java_log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "land" / "java.log"
    java_words_go_to(path)
    yield path
    for name in ("py4j", troubles.JAVA_WORDS):
        words = logging.getLogger(name)
        words.propagate = True
        for handler in list(words.handlers):
            words.removeHandler(handler)
            handler.close()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (STREAM, "Spark failed: ConnectException: Connection refused"),
        (STREAM.partition("JVM")[0], "Spark failed: Job aborted due to stage failure. SQLSTATE:"),
        ("An error occurred while calling o1.x.\n: a.b.FooError: no\n\tat c", "FooError: no"),
        (LOST, "the log dropped records before they were read: a start of the job says which"),
        (FULL, "No space left on device: the disk of the tables"),
    ],
)
def test_java_is_one_sentence_and_its_stack_is_in_the_file(
    said: str, sentence: str, java_log: Path
) -> None:
    error = SparkFailed(said)
    text = error_text(error, java_log)
    assert sentence in text and text.endswith(f"; Java's own words are in {java_log}")
    assert "\n" not in text and "\tat " not in text and ".scala" not in text and len(text) < 600
    note_java(error)
    assert said in java_log.read_text()


def test_what_is_not_javas_is_said_as_it_is(java_log: Path) -> None:
    assert error_text(LakehouseError("a topic:\n gone"), java_log) == "a topic: gone"
    assert error_text(KeyError("x")) == "KeyError: 'x'"
    full = OSError(28, "No space left on device", "/tables")
    assert error_text(full, java_log).endswith("it goes on where the tables end")
    note_java(LakehouseError("ours"))
    assert not java_log.exists()


def test_a_dead_java_process_is_called_that() -> None:
    assert error_text(ConnectionRefusedError(111, "refused")) == "Spark's Java process has ended"


def test_what_python_hears_of_java_goes_to_the_file_and_not_to_the_log(java_log: Path) -> None:
    said = StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    try:
        logging.getLogger("py4j.clientserver").error("a stack")
    finally:
        logging.getLogger().removeHandler(handler)
    assert "a stack" in java_log.read_text() and not said.getvalue()


def test_a_long_file_is_put_aside(java_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "JAVA_LOG_BYTES_MAX", 3)
    java_log.write_text("long")
    java_words_go_to(java_log)
    assert java_log.with_name("java.log.1").read_text() == "ong" and not java_log.read_text()


def test_a_file_that_grows_under_a_running_process_is_bounded_and_is_still_written_to(
    java_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(troubles, "JAVA_LOG_BYTES_MAX", 100)
    with java_log.open("ab", buffering=0) as of_java:
        for number in range(50):
            of_java.write(f"line {number:02} of a stack\n".encode())
            troubles.keep_bounded(java_log)
            assert java_log.stat().st_size <= 100
    note_java(SparkFailed("what Python heard"))
    assert "what Python heard" in java_log.read_text()
    older = java_log.with_name("java.log.1").read_text()
    assert len(older) == 100 and older.endswith(" of a stack\n") and "\0" not in older


def test_a_file_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    troubles.keep_bounded(tmp_path / "nobody" / "java.log")
