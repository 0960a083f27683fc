"""A consumer of old messages keeps nobody waiting."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from brokers.service.reading.cold_reads import ColdReads
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.records import decode_messages
from brokers.store.queues import cold_query
from brokers.store.queues.cold_query import ColdRead
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk


def not_in_memory(*_: object) -> int:
    raise BlockingIOError(errno.EAGAIN, "not in memory")


async def test_others_are_served_while_the_disk_is_slow_and_the_cold_pull_gets_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_query, "HOT_BYTES", 300)
    monkeypatch.setattr(os, "preadv", not_in_memory)
    disk, loop_thread, reading = threading.Event(), threading.get_ident(), threading.Event()
    real = ColdRead._read

    def slow(self: ColdRead, offset: int, count: int) -> bytes:
        assert threading.get_ident() != loop_thread
        reading.set()
        assert disk.wait(20)
        return real(self, offset, count)

    monkeypatch.setattr(ColdRead, "_read", slow)
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.tables.topics.put([TopicConfig("T", 1, 1)], 0)
        for number in range(10):
            await desk.ask(send_request("T", b"%d" % number))
        cold = asyncio.ensure_future(desk.ask(pull_request("T", 0, 0)))
        await until(reading.is_set, "the cold read has begun")
        for _ in range(50):
            hot = await desk.ask(pull_request("T", 0, 9))
            assert [read.fields.body for read in decode_messages(hot.body)] == [b"9"]
        assert not cold.done() and desk.service.pulls.cold_reads.done == 0
        disk.set()
        answer = await cold
        assert [read.fields.body for read in decode_messages(answer.body)] == [
            b"%d" % number for number in range(10)
        ]
        assert answer.ext["nextBeginOffset"] == "10"


async def test_after_the_end_nothing_is_read_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_query, "HOT_BYTES", 0)
    monkeypatch.setattr(os, "preadv", not_in_memory)
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        cold = desk.store.query_or_cold("T", 0, 0, 32)
        assert isinstance(cold, ColdRead)
        reads = ColdReads()
        reads.close()
        with pytest.raises(RuntimeError):
            await reads.read(cold)
        assert not cold._fds
