import asyncio
from pathlib import Path

from brokers.store.log.records import MessageFields, StoredMessage
from infra.workload.client import CallFailed, Pulled
from infra.workload.consumer import CORRUPT, Consumer, read_records
from infra.workload.message import body_of


def message(queue: int, offset: int, body: bytes) -> StoredMessage:
    fields = MessageFields("t", queue, body, b"", 0, b"\x7f\0\0\1\0\0\0\0", b"\x7f\0\0\1\0\0\0\0")
    return StoredMessage(fields, 100, 1, 0, offset, 0, 0)


class Scripted:
    """Two messages, a failure, a third that was changed, then nothing."""

    def __init__(self) -> None:
        self.refreshed = 0
        self.committed: dict[int, int] = {}
        self.failed = False

    async def pull(self, queue: int, offset: int) -> Pulled:
        await asyncio.sleep(0)
        if offset == 0:
            return Pulled([message(queue, 0, body_of(4)), message(queue, 1, body_of(8))], 2, 0, 3)
        if offset == 2 and not self.failed:
            self.failed = True
            raise CallFailed("closed", "h:1")
        if offset == 2:
            return Pulled([message(queue, 2, b"changed")], 3, 0, 3)
        return Pulled([], offset, 0, 3)

    async def refresh(self) -> None:
        self.refreshed += 1

    async def commit_offset(self, queue: int, offset: int) -> None:
        self.committed[queue] = offset


async def test_it_writes_down_what_came_goes_on_after_a_failure_and_shows_changed_bytes(
    tmp_path: Path,
) -> None:
    network = Scripted()
    consumer = Consumer(network, tmp_path / "c", 1)  # type: ignore[arg-type]
    task = asyncio.create_task(consumer.read_queue(0))
    while consumer.offsets[0] < 3:
        await asyncio.sleep(0.001)
    task.cancel()
    with (tmp_path / "c").open("ab") as file:
        file.write(b"0 3")  # torn
    assert list(read_records(tmp_path / "c")) == [(0, 0, 4), (0, 1, 8), (0, 2, CORRUPT)]
    assert (
        consumer.figures()["corrupt"] == 1 and network.refreshed == 1 and network.committed[0] >= 0
    )
