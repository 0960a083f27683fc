import asyncio
from pathlib import Path

from infra.workload.client import CallFailed, Route, Stored
from infra.workload.ledger import Ledger, read_ledger
from infra.workload.message import sequence_of
from infra.workload.producer import Producer


class Scripted:
    """Stands for the network: fails every third call."""

    def __init__(self) -> None:
        self.calls = 0
        self.sent: dict[int, list[int]] = {}
        self.route = Route("b", {0: "h:1"}, 4)

    async def refresh(self) -> None:
        self.route = Route("b", {0: f"h:{self.calls}"}, 4)

    async def send(self, key: str, body: bytes, queue: int) -> Stored:
        await asyncio.sleep(0)
        self.calls += 1
        if self.calls % 3 == 0:
            raise CallFailed("closed", "h:1")
        assert sequence_of(body) == int(key)
        self.sent.setdefault(queue, []).append(int(key))
        return Stored(queue, len(self.sent[queue]) - 1, "M", "h:1")


async def test_each_queue_gets_its_numbers_in_order_and_the_ledger_says_what_became_of_each(
    tmp_path: Path,
) -> None:
    network, ledger, stop = Scripted(), Ledger(tmp_path / "l"), asyncio.Event()
    producer = Producer(network, ledger, 4, 1e6, 64)  # type: ignore[arg-type]
    task = asyncio.create_task(producer.run(stop))
    while producer.done < 100:
        await asyncio.sleep(0)
    stop.set()
    await task
    ledger.close()
    found = read_ledger(tmp_path / "l")
    for queue, numbers in network.sent.items():
        assert numbers == list(range(queue, queue + 4 * len(numbers), 4))
    assert len(found.acknowledged) == producer.done and found.calls == network.calls
    assert found.unknown_calls == network.calls // 3 == producer.figures()["unknown"]
    assert producer.figures()["outages"] and not producer.figures()["outage"]
