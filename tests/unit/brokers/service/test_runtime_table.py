"""The runtime table that tools read."""

import pytest

from brokers.service.runtime_table import (
    POOLS,
    StoreFacts,
    WorkFacts,
    duration,
    human,
    runtime_table,
)
from brokers.service.statistics.counters import Statistics

FACTS = StoreFacts(
    100, 5_000, 4_000, 3_000, "/d/commitlog", 0.25, 0.5, 3 << 40, 5 << 29, 77, {3: (5, 9)}
)
WORK = WorkFacts({"send": 2, "pull": 1, "endTransaction": 4}, 99, 7_900, 3, 12)

# What rocketmq-exporter reads, as its numbers; one that is missing or no number costs it all.
NUMBERS = """
msgPutTotalTodayNow msgGetTotalTodayNow msgPutTotalTodayMorning msgGetTotalTodayMorning
msgPutTotalYesterdayMorning msgGetTotalYesterdayMorning dispatchMaxBuffer consumeQueueDiskRatio
commitLogDiskRatio pageCacheLockTimeMills getMessageEntireTimeMax putMessageEntireTimeMax
commitLogMaxOffset commitLogMinOffset bootTimestamp brokerVersion putMessageAverageSize
putMessageSizeTotal putMessageTimesTotal dispatchBehindBytes earliestMessageTimeStamp
startAcceptSendRequestTimeStamp putLatency99 putLatency999 timerCongestNum timerReadBehind
timerOffsetBehind timerEnqueueTps timerDequeueTps putMessageFailedTimes
remainTransientStoreBufferNumbs EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity
"""


def test_72_94_95_every_number_that_tools_read_is_there_and_is_one() -> None:
    table = runtime_table(
        FACTS, Statistics("c"), active=True, started_ms=1, wall_ms=2, work=WorkFacts({}, 1)
    )
    for name in NUMBERS.split():
        assert float(table[name]) >= -1, name
    for name in ("putTps", "getTotalTps", "getTransferredTps", "getTransferedTps", "getMissTps"):
        assert len([float(part) for part in table[name].split(" ")]) == 3
    for pool in POOLS:
        for what in ("Size", "Capacity", "HeadWaitTimeMills"):
            assert table[f"{pool}ThreadPoolQueue{what}"].isdigit()
    assert len(table["putMessageDistributeTime"].split(" ")) == 14


def test_72_the_table_holds_what_was_counted() -> None:
    counted = Statistics("c")
    counted.stored("T", 4, 800)
    counted.given("T", "g", 3, 600)
    counted.times.appended(8, 1)
    table = runtime_table(FACTS, counted, active=True, started_ms=1_000, wall_ms=91_000, work=WORK)
    wanted = {
        "brokerVersionDesc": "V5_3_3",
        "brokerActive": "true",
        "runtime": "[ 0 days, 0 hours, 1 minutes, 30 seconds ]",
        "msgPutTotalTodayNow": "4",
        "msgGetTotalTodayNow": "3",
        "putMessageAverageSize": "200.0",
        "putTps": "0.0000 0.0000 0.0000",
        "commitLogDirCapacity": "Total : 3.0 TiB, Free : 2.5 GiB.",
        "dispatchBehindBytes": "1000",
        "remainHowManyDataToFlush": "2.0 KiB",
        "earliestMessageTimeStamp": "77",
        "scheduleMessageOffset_3": "5,9",
        "sendThreadPoolQueueSize": "2",
        "ackThreadPoolQueueSize": "0",
        "EndTransactionQueueSize": "4",
        "EndTransactionThreadPoolQueueCapacity": "99",
        "timerReadBehind": "7",
        "timerOffsetBehind": "3",
        "timerCongestNum": "12",
        "timerDequeueTps": "0.0000",
        "putMessageEntireTimeMax": "8",
        "putLatency99": "8.00",
        "commitLogDiskRatio_/d/commitlog": "0.2500",
    }
    assert {name: table[name] for name in wanted} == wanted
    assert all(type(value) is str for value in table.values())


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 60, "1048576.0 TiB")]
)
def test_sizes_as_tools_split_them(size: int, text: str) -> None:
    assert human(size) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (90_061_000, "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"),
    ],
)
def test_how_long_it_runs(ms: int, text: str) -> None:
    assert duration(ms) == text
