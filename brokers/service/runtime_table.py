"""The runtime table of a broker, as RocketMQ's tools read it: 28 (PROTOCOL 4.16).

Responsible for: names, texts. Refuses to know: where the facts come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.service.statistics.append_times import AppendTimes
from brokers.service.statistics.counters import Statistics

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Of one store, now. Ratios 0 to 1, sizes and offsets in bytes, times in ms since 1970, -1:
    none. `delayed`: level -> (delivered, end) of its queue.
    """

    log_min: int
    log_end: int
    dispatched: int
    durable: int
    log_path: str
    log_used: float
    queues_used: float
    disk_total: int
    disk_free: int
    earliest_ms: int
    delayed: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """What waits, now. `queued`: RocketMQ's name of a thread pool -> requests that wait in its
    place; `room`: requests that one connection may have under way. Of the timer: how far it is
    late, messages that are not in the wheel, and that wait in it.
    """

    queued: Mapping[str, int]
    room: int
    timer_late_ms: int = 0
    timer_behind: int = 0
    timer_waiting: int = 0


POOLS = ("send", "pull", "litePull", "query", "ack")


def runtime_table(
    store: StoreFacts,
    counted: Statistics,
    *,
    active: bool,
    started_ms: int,
    wall_ms: int,
    work: WorkFacts,
) -> dict[str, str]:
    """Every value is a text, as there."""
    return {
        "brokerVersionDesc": "V5_3_3",
        "brokerVersion": "479",
        "brokerActive": str(active).lower(),
        "bootTimestamp": str(started_ms),
        "runtime": duration(wall_ms - started_ms),
        **_counts(counted),
        **_times(counted.times),
        **_of_store(store),
        "startAcceptSendRequestTimeStamp": "0",
        **_of_work(work, counted),
    }


def _times(times: AppendTimes) -> dict[str, str]:
    return {
        "putMessageDistributeTime": times.steps(),
        "putMessageEntireTimeMax": str(times.slowest_ms),
        "getMessageEntireTimeMax": str(times.slowest_read_ms),
        "putLatency99": f"{times.below_ms(0.99):.2f}",
        "putLatency999": f"{times.below_ms(0.999):.2f}",
    }


def _of_work(work: WorkFacts, counted: Statistics) -> dict[str, str]:
    """Nothing here waits for a thread: what waits, waits for the members, for messages or for a
    disk, each with a limit of its own.
    """
    found: dict[str, str] = {}
    for name in POOLS:
        found[f"{name}ThreadPoolQueueSize"] = str(work.queued.get(name, 0))
        found[f"{name}ThreadPoolQueueCapacity"] = str(work.room)
        found[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    into, out = counted.timer_rates()
    return found | {
        "EndTransactionQueueSize": str(work.queued.get("endTransaction", 0)),
        "EndTransactionThreadPoolQueueCapacity": str(work.room),
        "timerReadBehind": str(work.timer_late_ms // 1_000),
        "timerOffsetBehind": str(work.timer_behind),
        "timerCongestNum": str(work.timer_waiting),
        "timerEnqueueTps": f"{into:.4f}",
        "timerDequeueTps": f"{out:.4f}",
    }


def _counts(counted: Statistics) -> dict[str, str]:
    stored, given = counted.stored_all, counted.given_all
    put_today, get_today = counted.this_morning
    put_before, get_before = counted.yesterday_morning
    average = stored.size / stored.messages if stored.messages else 0.0
    return {
        "msgPutTotalYesterdayMorning": str(put_before),
        "msgPutTotalTodayMorning": str(put_today),
        "msgPutTotalTodayNow": str(stored.messages),
        "msgGetTotalYesterdayMorning": str(get_before),
        "msgGetTotalTodayMorning": str(get_today),
        "msgGetTotalTodayNow": str(given.messages),
        **counted.rates(),
        "putMessageTimesTotal": str(stored.messages),
        "putMessageFailedTimes": str(counted.failed),
        "putMessageSizeTotal": str(stored.size),
        "putMessageAverageSize": f"{average:.1f}",
    }


def _of_store(store: StoreFacts) -> dict[str, str]:
    delayed = {
        f"scheduleMessageOffset_{level}": f"{done},{end}"
        for level, (done, end) in sorted(store.delayed.items())
    }
    return {
        "commitLogMinOffset": str(store.log_min),
        "commitLogMaxOffset": str(store.log_end),
        "commitLogDiskRatio": f"{store.log_used:.4f}",
        "consumeQueueDiskRatio": f"{store.queues_used:.4f}",
        "commitLogDirCapacity": (
            f"Total : {human(store.disk_total)}, Free : {human(store.disk_free)}."
        ),
        "dispatchBehindBytes": str(max(0, store.log_end - store.dispatched)),
        "dispatchMaxBuffer": "0",
        f"commitLogDiskRatio_{store.log_path}": f"{store.log_used:.4f}",
        "remainTransientStoreBufferNumbs": "0",
        "remainHowManyDataToFlush": human(max(0, store.log_end - store.durable)),
        "pageCacheLockTimeMills": "0",
        "earliestMessageTimeStamp": str(store.earliest_ms),
        **delayed,
    }


def duration(ms: int) -> str:
    """Days, hours, minutes and seconds as RocketMQ writes them."""
    seconds = max(0, ms) // 1_000
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def human(size: int) -> str:
    """Bytes in the largest unit that leaves at least one of it: `3.5 GiB`."""
    if size < 1024:
        return f"{size} {_UNITS[0]}"
    value, unit = size / 1024, 1
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"
