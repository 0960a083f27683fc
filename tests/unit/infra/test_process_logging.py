import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import process_logging


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
