"""What the broker puts into its log itself: on the terms of a producer's send."""

import asyncio
from pathlib import Path

import pytest

from brokers.replica.put_rules import PutStatus
from brokers.replica.waiters import Confirmation
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.outlet import Outlet
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import MessageFields, RecordError, decode_messages, host_bytes
from tests.support.brokers import until
from tests.support.client_service import Desk

HOST = host_bytes("127.0.0.1", 1)


def message(body: bytes = b"x") -> MessageFields:
    return MessageFields("T", 0, body, b"", 1, HOST, HOST)


async def test_only_the_master_writes(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        with pytest.raises(NotPut, match="not the master"):
            desk.service.puts.append([message()])
        desk.lead().leads = False
        with pytest.raises(NotPut, match="not the master"):
            desk.service.puts.append([message()])
        desk.leads = True
        desk.roles.drain(True)
        with pytest.raises(NotPut, match="not the master"):
            desk.service.puts.append([message()])
        assert desk.store.log_end == 0


async def test_a_write_without_hope_stores_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().refusal = "in-sync replicas not enough: 1 of 2"
        with pytest.raises(NotPut) as refused:
            await desk.service.puts.put(message())
        assert refused.value.code == 1 and desk.store.log_end == 0


async def test_a_failed_log_ends_the_role(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.store.log.io_error = "planted"
        with pytest.raises(NotPut, match="planted"):
            desk.service.puts.append([message()])
        assert len(desk.storage_failures) == 1


async def test_a_message_that_cannot_be_stored_costs_no_other(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        large = message(b"x" * (5 << 20))
        one, two, three = desk.service.puts.append([message(), large, message()])
        assert isinstance(two, RecordError) and not isinstance(one, RecordError)
        assert not isinstance(three, RecordError) and three.queue_offset == 1
        with pytest.raises(NotPut) as refused:
            await desk.service.puts.put(large)
        assert refused.value.code == 13


@pytest.mark.parametrize(
    ("how", "status"),
    [
        (Confirmation.CONFIRMED, PutStatus.PUT_OK),
        (Confirmation.TIMED_OUT, PutStatus.FLUSH_SLAVE_TIMEOUT),
        (Confirmation.ABORTED, PutStatus.OUTCOME_UNKNOWN),
    ],
)
async def test_what_becomes_of_it_is_what_becomes_of_a_send(
    tmp_path: Path, how: Confirmation, status: PutStatus
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().confirm_at_once = False
        waiting = asyncio.ensure_future(desk.service.puts.put(message()))
        await until(lambda: desk.waits, "it is written")
        assert desk.service.unfinished() == 1
        desk.confirm(how)
        assert (await waiting).status is status and desk.service.unfinished() == 0


@pytest.mark.parametrize(
    ("flushed", "status"),
    [(Flushed.DURABLE, PutStatus.PUT_OK), (Flushed.TIMED_OUT, PutStatus.FLUSH_DISK_TIMEOUT)],
)
async def test_with_synchronous_flush_the_disk_counts(
    tmp_path: Path, flushed: Flushed, status: PutStatus
) -> None:
    def flush(_end_offset: int) -> asyncio.Future[Flushed]:
        future: asyncio.Future[Flushed] = asyncio.get_running_loop().create_future()
        future.set_result(flushed)
        return future

    async with Desk(tmp_path, flushed=flush) as desk:
        desk.lead()
        assert (await desk.service.puts.put(message())).status is status


async def test_what_is_put_in_one_turn_goes_into_the_log_together(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().confirm_at_once = False
        puts = desk.service.puts
        asked = [
            asyncio.ensure_future(puts.put_all([message(b"a"), message(b"b")])),
            asyncio.ensure_future(puts.put_all([message(b"x" * (5 << 20))])),
            asyncio.ensure_future(puts.put_all([message(b"c")])),
        ]
        await until(lambda: desk.waits, "they wait for the members")
        assert len(desk.waits) == 1 and desk.waits[0][0] == desk.store.log_end
        with pytest.raises(NotPut) as refused:
            await asked[1]
        assert refused.value.code == 13 and not asked[0].done() and puts.waiting == 2
        desk.confirm()
        assert await asked[0] is await asked[2] is PutStatus.PUT_OK and puts.waiting == 0
        bodies = [each.fields.body for each in decode_messages(desk.store.read_log(0, 1 << 20))]
        assert bodies == [b"a", b"b", b"c"]


async def test_what_is_put_together_is_refused_together(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().refusal = "in-sync replicas not enough: 1 of 2"
        puts = desk.service.puts
        asked = [asyncio.ensure_future(puts.put_all([message()])) for _ in range(2)]
        for one in asked:
            with pytest.raises(NotPut, match="not enough"):
                await one
        desk.refusal, desk.confirm_at_once = None, False
        given_up = asyncio.ensure_future(puts.put_all([message()]))
        other = asyncio.ensure_future(puts.put_all([message()]))
        await until(lambda: desk.waits, "they wait for the members")
        given_up.cancel()
        desk.confirm(Confirmation.TIMED_OUT)
        assert await other is PutStatus.FLUSH_SLAVE_TIMEOUT and given_up.cancelled()


async def test_as_an_outlet_what_is_safe_is_what_is_durable(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        outlet: Outlet = desk.lead().service.puts
        (result,) = outlet.append([message()])
        assert not isinstance(result, RecordError)
        assert outlet.safe_offset < result.end_offset and not outlet.is_full
        desk.store.checkpoint()
        assert outlet.safe_offset >= result.end_offset
