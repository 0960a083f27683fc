"""What must be true of the stream before a record reaches the fold (design D4)."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types.auth import AuthProtocol
from mode.utils.queues import ThrowableQueue

from processors.log import faust_worker
from processors.log.faust_worker import COMPANY_MAX, FaustWorker, at_once, broker_urls, credentials
from processors.log.reader import LogBroken
from tests.support.brokers import until


class Fold:
    """Takes records like the fold does."""

    def __init__(self, folder: Path) -> None:
        self.next_offset = 5
        self.taken: list[int] = []
        self.failures: list[str] = []
        self.worker = FaustWorker(
            "test",
            {"bootstrap.servers": "k:1"},
            folder,
            next_offset=lambda: self.next_offset,
            on_record=self.record,
            on_failure=self.failures.append,
        )

    def record(self, offset: int, data: bytes) -> None:
        self.taken.append(offset)
        self.next_offset = offset + 1


def test_redelivered_records_are_dropped(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    for offset in (3, 4, 5, 5, 6):
        fold.worker.take(offset, b"")
    assert fold.taken == [5, 6] and fold.failures == []


def test_what_comes_behind_missing_records_waits_for_them(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    for offset in (5, 8, 9, 7, 12, 8):
        fold.worker.take(offset, b"")
    assert fold.taken == [5] and fold.failures == []
    for offset in (6, 7, 8):
        fold.worker.take(offset, b"")
    assert fold.taken == [5, 6, 7, 8, 9]
    for offset in (10, 11):
        fold.worker.take(offset, b"")
    assert fold.taken == [5, 6, 7, 8, 9, 10, 11, 12] and fold.failures == []


def test_of_what_waits_a_bounded_number_is_kept_and_the_rest_is_missing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust_worker, "AHEAD_MAX", 2)
    fold = Fold(tmp_path)
    for offset in (6, 7, 8, 9, 5):
        fold.worker.take(offset, b"")
    assert fold.taken == [5, 6, 7]
    for offset in (10, 8, 9):
        fold.worker.take(offset, b"")
    assert fold.taken == [5, 6, 7, 8, 9, 10]


def test_a_record_that_cannot_be_applied_ends_it_once_and_nothing_follows(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    fold.worker.take(7, b"")

    def refuse(offset: int, data: bytes) -> None:
        raise LogBroken(f"planted at {offset}")

    fold.worker._on_record = refuse
    for offset in (5, 6, 5):
        fold.worker.take(offset, b"")
    assert fold.taken == [] and fold.failures == ["planted at 5"]


def test_the_app_is_set_up_so_that_a_paused_node_does_not_hold_it(tmp_path: Path) -> None:
    conf = Fold(tmp_path).worker.app.conf
    assert (
        conf.broker_request_timeout,
        conf.broker_session_timeout,
        conf.broker_heartbeat_interval,
    ) == (4, 3, 1)
    assert not conf.web_enabled and conf.topic_disable_leader and not conf.stream_wait_empty


def test_all_bootstrap_servers_are_passed_on() -> None:
    assert broker_urls({"bootstrap.servers": "a:1, b:2,"}) == ["kafka://a:1", "kafka://b:2"]


def test_security_settings_become_fausts_credentials() -> None:
    assert credentials({"bootstrap.servers": "k:1"}) is None
    sasl = credentials(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "u",
            "sasl.password": "p",
        }
    )
    assert sasl is not None and sasl.protocol is AuthProtocol.SASL_SSL
    assert credentials({"security.protocol": "SSL"}).protocol is AuthProtocol.SSL  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="not known"):
        credentials({"security.protocol": "TELEPATHY"})


class Arrivals:
    """A stream as Faust makes it for an agent: one event at a time out of the queue of its
    channel.
    """

    def __init__(self, worker: FaustWorker, offsets: Iterable[int]) -> None:
        self.queue = ThrowableQueue(flow_control=worker.app.flow_control)
        self.channel = self
        self.turns = 0
        for offset in offsets:
            self.queue.put_nowait(
                SimpleNamespace(message=SimpleNamespace(offset=offset, value=b""))
            )

    async def events(self) -> AsyncIterator[object]:
        while not self.queue.empty():
            self.turns += 1
            yield await self.queue.get()


async def test_records_that_are_here_already_are_taken_along_in_order(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    fold.worker.app.flow_control.resume()
    arrivals = Arrivals(fold.worker, range(3, 3 + 3 * (COMPANY_MAX + 1)))
    await fold.worker._drive(arrivals)
    assert arrivals.turns == 3
    assert fold.taken == list(range(5, 3 + 3 * (COMPANY_MAX + 1))) and fold.failures == []
    assert fold.worker.delivered == 3 * (COMPANY_MAX + 1)
    assert fold.worker.position == fold.next_offset


async def test_nothing_is_taken_along_while_partitions_are_given_out_anew(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    arrivals = Arrivals(fold.worker, (5, 6))
    fold.worker.app.flow_control.suspend()
    await fold.worker._drive(arrivals)
    assert arrivals.turns == 2 and fold.taken == [5, 6]


async def test_what_faust_throws_at_the_agent_is_not_swallowed(tmp_path: Path) -> None:
    fold = Fold(tmp_path)
    fold.worker.app.flow_control.resume()
    arrivals = Arrivals(fold.worker, (5, 6))
    arrivals.queue._throw(KeyError("thrown"))
    with pytest.raises(KeyError):
        await fold.worker._drive(arrivals)


class Slow:
    """Faust's own way, as far as it shows that it was taken."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    async def wait_first(self, *waited_for: Any, **limits: Any) -> object:
        self.asked.append((*waited_for, *limits))
        done, others = await asyncio.wait(
            [asyncio.ensure_future(one) for one in waited_for], return_when=asyncio.FIRST_COMPLETED
        )
        for other in others:
            other.cancel()
        (first,) = done
        return first.result()


async def test_a_record_that_finds_room_is_handed_over_without_a_turn_of_the_loop() -> None:
    slow, turns, handed = Slow(), [], []

    async def deliver() -> None:
        handed.append("over")

    asyncio.get_running_loop().call_soon(turns.append, 1)
    await at_once(slow.wait_first)(deliver(), asyncio.Event().wait())
    assert (handed, turns, slow.asked) == (["over"], [], [])


async def test_a_record_that_must_wait_for_room_waits_where_faust_can_give_it_up() -> None:
    slow, room, handed = Slow(), asyncio.Event(), []

    async def deliver() -> None:
        await room.wait()
        await asyncio.sleep(0)
        handed.append("over")

    waiting = asyncio.ensure_future(at_once(slow.wait_first)(deliver(), asyncio.Event().wait()))
    await until(lambda: slow.asked, "the slow way is taken")
    assert handed == []
    room.set()
    await waiting
    assert handed == ["over"]

    suspended = asyncio.Event()
    waiting = asyncio.ensure_future(
        at_once(slow.wait_first)(asyncio.Event().wait(), suspended.wait())
    )
    await until(lambda: len(slow.asked) == 2, "the slow way is taken again")
    suspended.set()
    assert await waiting is True


@pytest.mark.parametrize("waits", [False, True])
async def test_what_goes_wrong_in_a_delivery_comes_out_of_it(waits: bool) -> None:
    async def deliver() -> None:
        if waits:
            await asyncio.sleep(0)
        raise KeyError("delivery")

    with pytest.raises(KeyError, match="delivery"):
        await at_once(Slow().wait_first)(deliver(), asyncio.Event().wait())


async def test_whatever_else_faust_waits_for_goes_its_own_way() -> None:
    async def answer() -> str:
        return "came"

    slow = Slow()
    assert await at_once(slow.wait_first)(answer()) == "came"
    assert await at_once(slow.wait_first)(answer(), asyncio.Event().wait(), timeout=1.0) == "came"
    assert len(slow.asked) == 2
