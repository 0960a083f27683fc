"""PROTOCOL section 6: what a put needs, and its answer; one row of the tables,
one test.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from brokers.ha.sync_set import count_mode_candidate
from brokers.replica.put_rules import (
    NOT_ENOUGH,
    STORED,
    AckMode,
    BusyGate,
    PutStatus,
    code_of,
    combine,
)
from brokers.replica.waiters import Confirmation, ConfirmWaiters
from brokers.store.files.disk_space import full_remark
from brokers.store.log.group_commit import Flushed
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

# 6.2, the second table; the words are SendMessageProcessor's. Statuses that say "stored" carry
# none.
TABLE = {
    PutStatus.PUT_OK: (0, True, None),
    PutStatus.FLUSH_DISK_TIMEOUT: (10, True, None),
    PutStatus.FLUSH_SLAVE_TIMEOUT: (12, True, None),
    PutStatus.SLAVE_NOT_AVAILABLE: (11, True, None),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (1, False, "in-sync replicas not enough"),
    PutStatus.SERVICE_NOT_AVAILABLE: (14, False, "service not available now"),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        2,
        False,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.MESSAGE_ILLEGAL: (
        13,
        False,
        "the message is illegal, maybe msg body or properties length not matched.",
    ),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (
        13,
        False,
        "the message is illegal, maybe msg body or properties length not matched.",
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        1,
        False,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.UNKNOWN_ERROR: (1, False, "UNKNOWN_ERROR"),
}


@pytest.mark.parametrize("status", TABLE, ids=lambda status: status.value)
def test_each_status_has_its_code(status: PutStatus) -> None:
    code, stored, remark = TABLE[status]
    found, words = code_of(status)
    assert (found, status in STORED) == (code, stored)
    assert words is None if remark is None else (words or "").startswith(remark)


def test_the_table_is_whole() -> None:
    """What RocketMQ has no row for is only ours: a put whose mastership ended. It is told to try
    again.
    """
    assert set(PutStatus) - set(TABLE) == {PutStatus.OUTCOME_UNKNOWN}
    assert code_of(PutStatus.OUTCOME_UNKNOWN)[0] == 14


@pytest.mark.parametrize(
    ("replication", "flush", "status"),
    [
        (Confirmation.CONFIRMED, Flushed.DURABLE, PutStatus.PUT_OK),
        (Confirmation.CONFIRMED, Flushed.TIMED_OUT, PutStatus.FLUSH_DISK_TIMEOUT),
        (Confirmation.CONFIRMED, Flushed.FAILED, PutStatus.FLUSH_DISK_TIMEOUT),
        (Confirmation.TIMED_OUT, Flushed.DURABLE, PutStatus.FLUSH_SLAVE_TIMEOUT),
        (Confirmation.TIMED_OUT, Flushed.TIMED_OUT, PutStatus.FLUSH_SLAVE_TIMEOUT),
        (Confirmation.ABORTED, Flushed.DURABLE, PutStatus.OUTCOME_UNKNOWN),
        (Confirmation.TOO_MANY, Flushed.FAILED, PutStatus.OUTCOME_UNKNOWN),
    ],
)
def test_step_7_a_replica_that_is_late_is_said_over_a_disk_that_is(
    replication: Confirmation, flush: Flushed, status: PutStatus
) -> None:
    assert combine(replication, flush) is status


@pytest.mark.parametrize("waited", ["false", "False"])
async def test_step_1_wait_false_skips_every_check_and_every_wait(
    tmp_path: Path, waited: str
) -> None:
    """Replicas too few, a disk that never answers, no confirmation: written on the master, and
    success.
    """

    def never(_end_offset: int) -> asyncio.Future[Flushed]:
        return asyncio.get_running_loop().create_future()

    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"first"))
        desk.flushed, desk.confirm_at_once, desk.refusal = never, False, f"{NOT_ENOUGH}: 1 of 2"
        end = desk.store.log_end
        answer = await desk.ask(waiting("T", waited))
        assert (answer.code, answer.remark, answer.ext["queueOffset"]) == (0, None, "1")
        assert desk.store.log_end > end and not desk.waits and desk.service.sends.waiting == 0


@pytest.mark.parametrize("waited", ["true", "", "no", "0"])
async def test_step_1_any_other_word_waits(tmp_path: Path, waited: str) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"first"))
        end, desk.refusal = desk.store.log_end, f"{NOT_ENOUGH}: 1 of 2"
        answer = await desk.ask(waiting("T", waited))
        assert (answer.code, answer.remark) == (1, NOT_ENOUGH) and desk.store.log_end == end


async def test_step_1_those_who_wait_and_those_who_do_not_share_a_write_and_not_an_answer(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"first"))
        desk.confirm_at_once = False
        patient = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        hasty = await desk.ask(waiting("T", "false"))
        await until(lambda: desk.waits, "the other is written")
        assert hasty.code == 0 and not patient.done()
        desk.confirm(Confirmation.TIMED_OUT)
        assert (await patient).code == 12


async def test_step_2_too_few_in_sync_nothing_is_written(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        end, desk.refusal = desk.store.log_end, f"{NOT_ENOUGH}: 2 of 3 reachable"
        answers = [await desk.ask(send_request(topic, b"y")) for topic in ("T", "new")]
        assert [(one.code, one.remark) for one in answers] == [
            (1, NOT_ENOUGH)
        ] * 2 and desk.store.log_end == end


def test_step_2_the_set_must_have_the_minimum_in_either_mode() -> None:
    for all_ack in (True, False):
        refusals = [AckMode(all_ack, 1, 3).refusal(size, size) for size in (1, 2, 3, 4)]
        assert [one is None for one in refusals] == [False, False, True, True]


def test_step_3_nothing_shrinks_the_wanted_number_under_controllers() -> None:
    """enableAutoInSyncReplicas belongs to acting masters: accepted, said to do nothing, and it does
    nothing.
    """
    for size in range(5):
        assert AckMode(False, 3, 2, True).refusal(size, size) == AckMode(
            False, 3, 2, False
        ).refusal(size, size)
    assert any("no effect" in text for text in AckMode(auto=True).warnings())


def test_step_5_one_copy_is_there_at_once() -> None:
    assert count_mode_candidate(100, [], 1) == 100
    assert AckMode(all_ack=False, in_sync=1).label == "asynchronous (may lose)"


def test_step_6_number_mode_counts_whoever_holds_it() -> None:
    assert count_mode_candidate(100, [40, 100, 70], 2) == 100
    assert count_mode_candidate(100, [40, 100, 70], 3) == 70
    assert count_mode_candidate(100, [40, 100, 70], 5) is None


def test_step_6_a_put_that_times_out_delays_nobody() -> None:
    """RocketMQ serves the waiting puts one after the other, so that one that times out holds up
    those behind it.
    """
    told: list[tuple[str, Confirmation]] = []
    waiters: ConfirmWaiters[str] = ConfirmWaiters(lambda who, how: told.append((who, how)))
    for who, end_offset, deadline_ms in (
        ("slow", 100, 3_000),
        ("next", 200, 6_000),
        ("last", 300, 9_000),
    ):
        assert waiters.add(end_offset, deadline_ms, who)
    waiters.expire(3_000)
    waiters.confirm(200)
    assert told == [("slow", Confirmation.TIMED_OUT), ("next", Confirmation.CONFIRMED)]


async def test_a_full_disk_is_service_not_available_in_rocketmqs_words(tmp_path: Path) -> None:
    words = full_remark(tmp_path)
    assert words.startswith(
        "service not available now. It may be caused by one of the following reasons: the "
        "broker's disk is full"
    )
    assert code_of(PutStatus.SERVICE_NOT_AVAILABLE, words) == (14, words)


@pytest.mark.parametrize("hung_ms", [1_000, 1_001])
async def test_6_1_an_append_that_hangs_for_a_second_makes_the_broker_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung_ms: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        now_ms, gate = desk.clock.now_ms(), BusyGate()
        gate.appended(now_ms - hung_ms, now_ms)
        desk.service.sends.gate = gate
        # however long this machine takes to ask
        monkeypatch.setattr(desk.clock, "now_ms", lambda: now_ms)
        end = desk.store.log_end
        codes = [(await desk.ask(send_request("T", b"y"))).code for _ in range(2)]
        assert codes == ([2, 0] if hung_ms > 1_000 else [0, 0]) and desk.store.log_end > end


async def test_6_1_who_is_queued_for_more_than_200_ms_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        times = iter([1_000, 1_201])
        end = desk.store.log_end
        gate = BusyGate()
        assert gate.refusal(700, 1_000) is None  # there is a queue already
        # A clock of the sends alone: others read theirs whenever their time has come.
        monkeypatch.setattr(
            desk.service.sends, "_clock", SimpleNamespace(now_ms=lambda: next(times))
        )
        desk.service.sends.gate = gate
        answer = await desk.ask(send_request("T", b"y"))
        assert (
            answer.code == 2
            and "[TIMEOUT_CLEAN_QUEUE]" in (answer.remark or "")
            and desk.store.log_end == end
        )


def waiting(topic: str, word: str):
    request = send_request(topic, b"y")
    request.ext["i"] = f"KEYS\x01k\x02WAIT\x01{word}\x02"
    return request
