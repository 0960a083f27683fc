"""The child's side of the process that makes queue entries, run here: the same entries as at once,
an end when it has to.
"""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.store.queues import entry_worker
from brokers.store.queues.entry_runs import EntryRuns, entry_runs
from brokers.store.queues.entry_worker import LENGTH, QUESTION, entries_of, serve
from tests.unit.brokers.store.log_samples import message
from tests.unit.brokers.store.queues.test_entry_runs import log_of

START = 1 << 33


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    """(descriptor of a file that holds messages from byte 5 on, the messages)."""
    data = log_of(
        [message("AB"[number % 2], number % 3, b"x" * (number % 50)) for number in range(400)],
        START,
    )
    path = tmp_path / "log"
    path.write_bytes(b"12345" + data)
    with path.open("rb") as source:
        yield source.fileno(), data


def entries_by_queue(made: EntryRuns) -> dict[tuple[str, int], bytes]:
    found: dict[tuple[str, int], bytes] = {}
    for run in made.runs:
        found[run.topic, run.queue_id] = found.get((run.topic, run.queue_id), b"") + run.entries
    return found


def test_many_steps_give_what_one_look_gives(
    log_file: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_worker, "STEP_BYTES", 1000)
    fileno, data = log_file
    for count in (len(data), len(data) - 1, 999, 1001, 40):
        made, wanted = entries_of(fileno, START, 5, count), entry_runs(data[:count], START)
        assert (made.end, made.store_ms) == (wanted.end, wanted.store_ms)
        assert entries_by_queue(made) == entries_by_queue(wanted)


def test_it_stops_where_no_message_is(log_file: tuple[int, bytes]) -> None:
    fileno, data = log_file
    assert entries_of(fileno, START, 5, len(data) + 1000).end == START + len(data)
    assert entries_of(fileno, START, 6, 1000) == EntryRuns(START, [], 0)


class Served:
    """The worker on a thread."""

    def __init__(self, idle_s: float = 20.0) -> None:
        self.link, theirs = socket.socketpair()
        self.thread = threading.Thread(target=serve, args=(theirs, idle_s))
        self.thread.start()
        assert self.received(LENGTH.size) == LENGTH.pack(0)

    def received(self, count: int) -> bytes:
        return self.link.recv(count, socket.MSG_WAITALL)

    def ask(self, fileno: int, *question: int) -> EntryRuns | None:
        socket.send_fds(self.link, [QUESTION.pack(*question)], [fileno])
        return pickle.loads(self.received(LENGTH.unpack(self.received(LENGTH.size))[0]))

    def ended(self) -> bool:
        self.thread.join(20)
        return not self.thread.is_alive()


def test_questions_and_answers(log_file: tuple[int, bytes], tmp_path: Path) -> None:
    fileno, data = log_file
    served = Served()
    assert served.ask(fileno, START, 5, len(data)) == entries_of(fileno, START, 5, len(data))
    with open(tmp_path / "unreadable", "wb") as unreadable:
        assert served.ask(unreadable.fileno(), START, 5, len(data)) is None
    assert served.ask(fileno, START, 5, 500) == entries_of(fileno, START, 5, 500)
    served.link.close()
    assert served.ended()


def test_it_ends_when_nobody_asks() -> None:
    served = Served(idle_s=0.01)
    assert served.received(1) == b"" and served.ended()
    served.link.close()
