import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.processes import logging as process_logging


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in list(root.handlers):
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    threading.excepthook = threading.__excepthook__


def record(name: str, text: str, *figures: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, __file__, 1, text, figures, None)


def test_what_a_library_repeats_is_said_now_and_then_with_the_number_left_out() -> None:
    now_s = [100.0]
    sparing = process_logging.Sparing(lambda: now_s[0])
    passed = [
        sparing.filter(record("aiokafka.client", "no node %s", number)) for number in range(5)
    ]
    assert passed == [True, False, False, False, False]
    assert sparing.filter(record("aiokafka.client", "another thing")), (
        "another kind is not held back"
    )
    now_s[0] += process_logging.EVERY_S
    late = record("aiokafka.client", "no node %s", 9)
    assert sparing.filter(late) and late.getMessage() == (
        "no node 9 (4 more like this since the last)"
    )


def test_what_the_project_itself_says_is_never_left_out() -> None:
    sparing = process_logging.Sparing(lambda: 0.0)
    assert all(
        sparing.filter(record("processors.controller", "set %s has no master", number))
        for number in range(50)
    )


def test_the_kinds_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_logging, "KINDS_MAX", 3)
    sparing = process_logging.Sparing(lambda: 0.0)
    assert all(sparing.filter(record("faust", f"kind {number}")) for number in range(10))
    assert len(sparing._said) <= 3


def test_a_thread_that_is_cancelled_while_it_closes_is_no_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    process_logging.configure(None)
    thread = threading.Thread(target=cancelled, name="loop-7")
    thread.start()
    thread.join()
    said = capsys.readouterr().err
    assert "thread loop-7 was cancelled" in said and "Traceback" not in said


def test_lines_go_to_a_file_with_utc_times_and_levels(tmp_path: Path) -> None:
    process_logging.configure(tmp_path / "logs/p.log", "info")
    logging.getLogger("regent.test").info("hello")
    logging.getLogger("regent.test").debug("quiet")
    text = (tmp_path / "logs/p.log").read_text()
    assert text.endswith("Z INFO regent.test: hello\n") and "quiet" not in text


def test_the_file_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_logging, "LOG_BYTES_MAX", 200)
    process_logging.configure(tmp_path / "p.log")
    for number in range(50):
        logging.getLogger("regent.test").info("line %d", number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["p.log"] + [f"p.log.{i}" for i in range(1, process_logging.LOG_FILES_KEPT + 1)]
