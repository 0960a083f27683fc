"""Reading a queue back: to its end, over failures, and honest about a queue that stops early."""

from __future__ import annotations

import pytest

from brokers.remoting.codes import RequestCode
from brokers.store.log.records import MessageFields, StoredMessage
from infra.workload.client import CallFailed, Pulled
from infra.workload.consumer import CORRUPT
from infra.workload.message import body_of
from infra.workload.read_back import READ_TRIES, read_queue

HOST = b"\x7f\0\0\1\0\0\0\0"


def message(offset: int, body: bytes) -> StoredMessage:
    return StoredMessage(MessageFields("t", 1, body, b"", 0, HOST, HOST), 100, 1, 0, offset, 0, 0)


class Queue:
    """A queue that ends at 3; pulls answer from a script by offset, a number means so many failures
    first.
    """

    def __init__(self, answers: dict[int, Pulled], failures: int = 0) -> None:
        self.answers, self.failures, self.refreshed = answers, failures, 0

    async def offset(self, code: RequestCode, queue: int) -> int:
        assert code is RequestCode.GET_MAX_OFFSET
        return 3

    async def pull(self, queue: int, offset: int, *, suspend_ms: int) -> Pulled:
        if self.failures:
            self.failures -= 1
            raise CallFailed("closed", "h:1")
        return self.answers[offset]

    async def refresh(self) -> None:
        self.refreshed += 1


FIRST = Pulled([message(0, body_of(4)), message(1, b"changed")], 2, 0, 3)
LAST = Pulled([message(2, body_of(8))], 3, 0, 3)


async def test_a_queue_is_read_to_its_end_over_failures_and_says_what_was_changed() -> None:
    queue = Queue({0: FIRST, 2: LAST}, failures=2)
    read = await read_queue(queue, 1)  # type: ignore[arg-type]
    assert read.records == [(1, 0, 4), (1, 1, CORRUPT), (1, 2, 8)]
    assert (read.stopped_at, read.end, queue.refreshed) == (3, 3, 2)


async def test_a_queue_that_does_not_go_on_is_left_and_told() -> None:
    read = await read_queue(Queue({0: FIRST, 2: Pulled([], 2, 0, 3)}), 1)  # type: ignore[arg-type]
    assert len(read.records) == 2 and (read.stopped_at, read.end) == (2, 3)


async def test_a_queue_that_never_answers_is_an_error_after_its_tries() -> None:
    queue = Queue({}, failures=READ_TRIES + 1)
    with pytest.raises(CallFailed):
        await read_queue(queue, 1)  # type: ignore[arg-type]
    assert queue.refreshed == READ_TRIES
