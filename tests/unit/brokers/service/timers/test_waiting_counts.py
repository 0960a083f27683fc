"""Waiting messages per topic: counted anew, and right whatever comes and goes meanwhile."""

from pathlib import Path

import pytest

from brokers.service.sending.timed import TimerRules
from brokers.service.timers import waiting_counts
from brokers.service.timers.time_rules import Target
from brokers.service.timers.timer_files import Entry, TimerFiles, open_files
from brokers.service.timers.waiting_counts import WaitingCounts
from brokers.store.log.properties import java_string_hash

T = 1_795_413_488_000


def entry(topic: str, seconds: int, *, deletes: bool = False) -> Entry:
    target = Target(T + seconds * 1_000, False)
    return Entry(target, T, 0, 91, java_string_hash(topic), deletes)


@pytest.fixture
def files(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = open_files(
        tmp_path, TimerRules(), flushed=0, enqueued=0, now_ms=T, queue_offset_of=lambda unit: 0
    )
    yield opened
    opened.close()


def counted(counts: WaitingCounts, files: TimerFiles) -> dict[str, int]:
    while counts.step(files):
        pass
    assert counts.is_whole
    return counts.table(["A", "B", "C"])


def test_39_what_is_in_the_wheel_is_counted_by_topic_and_recalls_are_not(files: TimerFiles) -> None:
    files.put([entry("A", 1), entry("A", 1), entry("B", 9), entry("A", 2, deletes=True)])
    files.put([entry("C", -5)])
    assert counted(WaitingCounts(T, 1_000), files) == {"A": 2, "B": 1}


def test_39_what_comes_and_goes_meanwhile_is_counted_once(
    files: TimerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_counts, "STEP_UNITS", 3)
    files.put([entry("A", 1)] * 10 + [entry("B", 500)] * 10)
    counts = WaitingCounts(T, 1_000)
    steps = 0
    while counts.step(files):
        steps += 1
        for seconds in (1, 500):  # one in front of the count, one behind it
            files.put([entry("A", seconds)])
            counts.came(T + seconds * 1_000, counts.name("A"))
    assert counts.table(["B"]) == {"A": 10 + 2 * steps, "B": 10}
    for _ in range(10 + 2 * steps):
        counts.left(T + 1_000, counts.name("A"))
    assert counts.table([]) == {"A": 0, "B": 10}
    counts.left(T + 1_000, counts.name("A"))
    assert counts.table([])["A"] == 0, "never below nothing"
