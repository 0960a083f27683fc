"""An acknowledgement leaves when its bytes are on the disk, and never before."""

from __future__ import annotations

import asyncio

from brokers.log.flush_queue import Flushed
from brokers.replica.durable_acks import DurableAcks


class Disk:
    def __init__(self) -> None:
        self.asked: list[tuple[int, asyncio.Future[Flushed]]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.acks = DurableAcks(self._flushed, lambda link_id, data: self.sent.append((link_id, data)))

    def _flushed(self, end_offset: int) -> asyncio.Future[Flushed]:
        self.asked.append((end_offset, asyncio.get_running_loop().create_future()))
        return self.asked[-1][1]

    async def ends(self, how: Flushed) -> None:
        self.asked[-1][1].set_result(how)
        await asyncio.sleep(0)


async def test_a_packet_waits_for_the_disk_and_the_newest_of_those_behind_it_is_next() -> None:
    disk = Disk()
    disk.acks.send(1, b"10", 10)
    disk.acks.send(1, b"20", 20)
    disk.acks.send(1, b"30", 30)
    assert [end for end, _ in disk.asked] == [10] and disk.sent == []
    await disk.ends(Flushed.DURABLE)
    assert disk.sent == [(1, b"10")] and [end for end, _ in disk.asked] == [10, 30]
    await disk.ends(Flushed.DURABLE)
    assert disk.sent == [(1, b"10"), (1, b"30")]
    disk.acks.send(1, b"40", 40)
    await disk.ends(Flushed.DURABLE)
    assert disk.sent[-1] == (1, b"40")


async def test_what_did_not_reach_the_disk_is_not_told_and_what_comes_later_tries_again() -> None:
    disk = Disk()
    for how in (Flushed.TIMED_OUT, Flushed.FAILED):
        disk.acks.send(1, b"10", 10)
        await disk.ends(how)
    assert disk.sent == []
    disk.acks.send(1, b"10", 10)
    await disk.ends(Flushed.DURABLE)
    assert disk.sent == [(1, b"10")]
