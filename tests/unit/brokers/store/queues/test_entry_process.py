"""The broker's side of the process that makes queue entries: real processes, killed, stopped and
closed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.store.log.message_log import FileRange
from brokers.store.queues import entry_process
from brokers.store.queues.entry_process import EntryProcess
from brokers.store.queues.entry_runs import EntryRuns, entry_runs
from tests.support.brokers import until
from tests.unit.brokers.store.log_samples import message
from tests.unit.brokers.store.queues.test_entry_runs import log_of

DATA = log_of([message("T", number % 3, b"x" * 40) for number in range(2_000)])


class Asked:
    """One process, and a log's file to ask about."""

    def __init__(self, folder: Path) -> None:
        self.told: list[EntryRuns | None] = []
        self.process = EntryProcess(self.told.append)
        (folder / "log").write_bytes(DATA)
        self.file = (folder / "log").open("rb")

    def ask(self, count: int = len(DATA)) -> bool:
        return self.process.ask(FileRange(self.file.fileno(), 0, count), 0)

    async def free(self) -> None:
        await until(lambda: self.process.is_free, "it may be asked")


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    made = Asked(tmp_path)
    assert not made.process.is_free
    await made.free()
    yield made
    made.process.close()
    made.file.close()


async def test_answers_are_told(asked: Asked) -> None:
    for count in (len(DATA), 5_000):
        assert asked.ask(count) and not asked.process.is_free
        await asked.free()
        assert asked.told.pop() == entry_runs(DATA[:count], 0)


async def test_an_answer_that_was_waited_for_is_not_told(asked: Asked) -> None:
    for _ in range(3):
        assert asked.ask()
        assert asked.process.wait(20) == entry_runs(DATA, 0)
    assert asked.ask(5_000)
    await until(lambda: asked.told, "the last one is told")
    assert asked.told == [entry_runs(DATA[:5_000], 0)]


async def test_one_that_is_killed_is_told(asked: Asked) -> None:
    os.kill(asked.process.pid, signal.SIGSTOP)
    assert asked.ask()
    os.kill(asked.process.pid, signal.SIGKILL)
    await until(lambda: asked.told, "it is told")
    assert asked.told == [None] and not asked.process.is_alive and not asked.process.is_free


async def test_one_that_is_killed_is_waited_for_no_longer(asked: Asked) -> None:
    os.kill(asked.process.pid, signal.SIGSTOP)
    assert asked.ask()
    os.kill(asked.process.pid, signal.SIGKILL)
    assert asked.process.wait(20) is None and asked.told == []


async def test_one_that_stands_still_is_ended(asked: Asked) -> None:
    os.kill(asked.process.pid, signal.SIGSTOP)
    assert asked.ask()
    assert asked.process.wait(0.01) is None
    with pytest.raises(ProcessLookupError):
        os.kill(asked.process.pid, 0)


async def test_one_that_ended_cannot_be_asked(asked: Asked) -> None:
    os.kill(asked.process.pid, signal.SIGKILL)
    await until(lambda: not asked.process.is_alive, "its end is seen")
    assert not asked.ask() and asked.told == []


async def test_closing_ends_it(asked: Asked) -> None:
    assert asked.ask()
    asked.process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(asked.process.pid, 0)
    assert asked.told == []


async def test_a_program_that_is_missing_is_an_error_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_process, "COMMAND", ("/nowhere",))
    with pytest.raises(OSError):
        EntryProcess(lambda made: None)
