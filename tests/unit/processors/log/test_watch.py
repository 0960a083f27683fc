"""The watch beside the stream processor, on a mock Kafka: help, and the end when nobody watches
(design S11).
"""

import asyncio

import pytest

from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC
from processors.log import watch as log_watch
from processors.log.reader import LogBroken, hole
from processors.log.watch import LogWatch
from tests.support.brokers import until
from tests.support.mock_kafka import mock_kafka


class Follower:
    """A stream processor that hands over nothing by itself."""

    def __init__(self, next_offset: int = 0) -> None:
        self.position = self.next_offset = next_offset
        self.delivered = 0
        self.crash: str | None = None
        self.taken: list[tuple[int, bytes]] = []

    def take(self, offset: int, data: bytes | None) -> None:
        self.taken.append((offset, data or b""))
        self.next_offset = offset + 1


def watch_of(
    kafka: dict[str, str], follower: Follower, halts: list[str], watchdog_s: float = 60.0
) -> LogWatch:
    return LogWatch(
        kafka,
        follower,
        topic_id=None,
        watchdog_s=watchdog_s,
        next_offset=lambda: follower.next_offset,
        newest=lambda: follower.taken[-1] if follower.taken else None,
        on_halt=halts.append,
    )


async def append(kafka: dict[str, str], *values: bytes) -> None:
    made = LogProducer(kafka, COMMANDS_TOPIC, asyncio.get_running_loop())
    for value in values:
        made.append(value, lambda offset: None)
    await made.close(timeout_s=20)


async def test_what_faust_is_late_with_is_read_directly_and_a_stuck_faust_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_watch, "LOOK_EVERY_S", 0.02)
    halts: list[str] = []
    with mock_kafka() as kafka:
        await append(kafka, b"a", b"b", b"c")
        follower = Follower(1)
        watch = watch_of(kafka, follower, halts, watchdog_s=3.0)
        watch.start()
        await until(lambda: follower.taken == [(1, b"b"), (2, b"c")], "the rest is handed over")
        await until(lambda: halts, "a worker that hands over nothing is stuck")
        assert watch.helped == 2 and "it is stuck" in halts[0]
        await watch.close()


async def test_a_hole_of_the_log_itself_ends_it_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_watch, "LOOK_EVERY_S", 0.02)
    halts: list[str] = []
    with mock_kafka() as kafka:
        await append(kafka, b"a", b"b", b"c")
        follower = Follower(1)
        watch = watch_of(kafka, follower, halts)
        read = watch._reader.read

        def read_over_a_hole(topic, start, end, take, silence_max_s):  # type: ignore[no-untyped-def]
            if end > 2:
                read(topic, start, min(end, 2), take, silence_max_s)
                raise LogBroken(hole(topic, 2, 3))
            read(topic, start, end, take, silence_max_s)

        monkeypatch.setattr(watch._reader, "read", read_over_a_hole)
        watch.start()
        await until(lambda: halts, "it is noticed")
        assert follower.taken == [(1, b"b")]
        assert "has a hole: offset 2 was expected, 3 came; restore" in halts[0]
        await watch.close()


async def test_a_record_that_changed_under_the_fold_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_watch, "LOOK_EVERY_S", 0.02)
    halts: list[str] = []
    with mock_kafka() as kafka:
        await append(kafka, b"a", b"b")
        follower = Follower()
        follower.take(0, b"a")
        follower.take(1, b"what was there before the log was cut")
        follower.position = 2
        watch = watch_of(kafka, follower, halts)
        watch.start()
        await until(lambda: halts, "it is noticed")
        assert "cut and written anew" in halts[0]
        await watch.close()


async def test_a_worker_that_crashed_and_a_watch_that_fails_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_watch, "LOOK_EVERY_S", 0.02)
    halts: list[str] = []
    with mock_kafka() as kafka:
        crashed, broken = Follower(), Follower()
        crashed.crash = "planted"
        watches = [watch_of(kafka, crashed, halts), watch_of(kafka, broken, halts)]
        monkeypatch.setattr(watches[1]._health, "judge", lambda look, now_s: 1 / 0)
        for watch in watches:
            watch.start()
        await append(kafka, b"a")
        await until(lambda: len(halts) == 2, "both are noticed")
        assert any("has crashed: planted" in one for one in halts)
        assert any("nobody watches the log any more: ZeroDivisionError" in one for one in halts)
        for watch in watches:
            await watch.close()


async def test_a_kafka_that_does_not_answer_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_watch, "LOOK_EVERY_S", 0.02)
    halts: list[str] = []
    watch = watch_of({"bootstrap.servers": "127.0.0.1:1"}, Follower(), halts)
    watch.start()
    await until(lambda: watch._looks >= 3, "it looks again and again")
    assert not halts
    await watch.close()
