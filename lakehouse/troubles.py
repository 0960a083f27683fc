"""What ends a job that has a Spark, in one sentence with the way out; Java's own words, with their
stacks, go to a file that is bounded.

Refuses to know what was being done.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from pathlib import Path

from lakehouse.errors import LakehouseError
from lakehouse.spark_session import java_errors

JAVA_WORDS = "regent.lake.java"
SENTENCE_CHARS_MAX = 400
JAVA_LOG_BYTES_MAX = 4_000_000
"""Of a longer file the end is put aside, and it begins again; one older file is kept."""
_THROWN = re.compile(r"^[:\s]*(?:Caused by:\s*)?((?:\w+\.)+\w*(?:Exception|Error))(?::\s*(.*))?$")
_STREAM_FAILED = re.compile(r"terminated with exception: (.*)", re.DOTALL)


class SparkFailed(LakehouseError):
    """What Spark said when it failed, stack and all."""


def error_text(error: BaseException, java_log: Path | None = None) -> str:
    """One sentence on what went wrong, with the way out where the error has none; `java_log`: where
    the rest is to be found.
    """
    text = _text(error)
    where = "" if java_log is None else f"; Java's own words are in {java_log}"
    if os.strerror(errno.ENOSPC) in text:
        return (
            f"{os.strerror(errno.ENOSPC)}: the disk of the tables, of the checkpoint or of "
            f"work_dir is full. Make room and begin again: it goes on where the tables end"
            f"{where if _is_java(error) else ''}"
        )
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return f"Spark's Java process has ended{where}"
    if not _is_java(error):
        kind = "" if isinstance(error, LakehouseError) else f"{type(error).__name__}: "
        return _one_line(f"{kind}{text}", len(text) + len(kind))
    if "data loss" in text.lower() or "OffsetOutOfRange" in text or "failOnDataLoss" in text:
        return (
            f"the log dropped records before they were read: a start of the job says which{where}"
        )
    return f"Spark failed: {_cause(text)}{where}"


def java_words_go_to(path: Path) -> None:
    """What Python hears of Java's errors, beside landing's own words, goes to this file; so does
    what the Java process says.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    keep_bounded(path)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    for name in ("py4j", JAVA_WORDS):
        words = logging.getLogger(name)
        for before in list(words.handlers):
            words.removeHandler(before)
            before.close()
        words.addHandler(handler)
        words.propagate = False


def keep_bounded(path: Path) -> None:
    """Put the end of the file aside and empty it where it is longer than `JAVA_LOG_BYTES_MAX`.

    The Java process keeps the file open and appends, so it is emptied and not renamed; a line that
    is written in between may be lost.
    """
    try:
        if path.stat().st_size <= JAVA_LOG_BYTES_MAX:
            return
        with path.open("r+b") as file:
            file.seek(-JAVA_LOG_BYTES_MAX, os.SEEK_END)
            path.with_name(f"{path.name}.1").write_bytes(file.read(JAVA_LOG_BYTES_MAX))
            file.truncate(0)
    except OSError:
        return  # Not there yet, or the disk is full: what matters is said elsewhere.


def note_java(error: BaseException) -> None:
    """Put all that Java said of an error into the file."""
    if _is_java(error):
        logging.getLogger(JAVA_WORDS).error("%s", _text(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # The words were Java's, and it has ended.
        return type(error).__name__


def _is_java(error: BaseException) -> bool:
    return isinstance(error, (SparkFailed, *java_errors()))


def _cause(text: str) -> str:
    """The innermost of what Java threw, without its package and stack."""
    thrown = [found for line in text.splitlines() if (found := _THROWN.match(line.strip()))]
    if thrown:
        name, said = thrown[-1].groups()
        return _one_line(f"{name.rpartition('.')[2]}: {said or ''}".rstrip(": "))
    streamed = _STREAM_FAILED.search(text.partition("\n=== Streaming Query ===")[0])
    return _one_line(streamed[1] if streamed else text.strip().partition("\n\n")[0])


def _one_line(text: str, chars_max: int = SENTENCE_CHARS_MAX) -> str:
    return " ".join(text.split())[:chars_max]
