"""Messages stored and given, by topic and group, over a minute, an hour and a day (PROTOCOL 4.16).

Responsible for: sums, snapshots, rates. Refuses to know: clocks, who asks.

A rate is that between the oldest and the newest snapshot: 7 of ten seconds, 7 of ten minutes, 25 of
an hour, as tools of RocketMQ read them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from brokers.service.statistics.append_times import AppendTimes

# Topics, and pairs of topic and group, that are counted each for itself; more are in the totals
# only.
KEYS_MAX = 10_000
SECOND_MS, MINUTE_MS = 1_000, 60_000
NORMAL = "normal"
KINDS = ("fifo", "delay", "transaction")
"""RocketMQ's message types."""
# Name of a snapshot row -> (how often, how many are kept).
ROWS = {
    "statsMinute": (10 * SECOND_MS, 7),
    "statsHour": (10 * MINUTE_MS, 7),
    "statsDay": (60 * MINUTE_MS, 25),
}
# Of the last 10, 60 and 600 seconds.
RATES_S = (10, 60, 600)


class _Moment(NamedTuple):
    at_ms: int
    messages: int
    size: int
    calls: int


@dataclass(slots=True)
class Counter:
    """Sums since the first use, and their snapshots."""

    messages: int = 0
    size: int = 0
    calls: int = 0
    rows: dict[str, deque[_Moment]] = field(default_factory=dict)

    def add(self, messages: int, size: int) -> None:
        """One call with so many messages and bytes."""
        self.messages += messages
        self.size += size
        self.calls += 1

    def snapshot(self, name: str, at_ms: int) -> None:
        """Remember the sums of now in this row."""
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = deque(maxlen=ROWS[name][1])
        row.append(_Moment(at_ms, self.messages, self.size, self.calls))

    def view(self, name: str, *, of_bytes: bool) -> dict[str, float | int]:
        """`sum`, `tps` and `avgpt` of a row: between its oldest and its newest snapshot."""
        row = self.rows.get(name)
        if not row:
            return {"avgpt": 0.0, "sum": 0, "tps": 0.0}
        first, last = row[0], row[-1]
        total = last.size - first.size if of_bytes else last.messages - first.messages
        calls, seconds = last.calls - first.calls, (last.at_ms - first.at_ms) / SECOND_MS
        return {
            "avgpt": total / calls if calls else 0.0,
            "sum": total,
            "tps": total / seconds if seconds > 0 else 0.0,
        }

    @property
    def is_idle(self) -> bool:
        """Nothing happened for a day."""
        row = self.rows.get("statsDay")
        whole = row is not None and len(row) == row.maxlen
        return whole and row is not None and row[0].calls == row[-1].calls


class _Second(NamedTuple):
    at_ms: int
    stored: int
    found: int
    missed: int
    given: int
    enqueued: int
    dequeued: int


class Statistics:
    """Of one broker since its process began. `given_calls`: reads that found something, `missed`:
    those that did not.
    """

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._topics: dict[str, Counter] = {}
        self._groups: dict[tuple[str, str], Counter] = {}
        self._kinds: dict[tuple[str, str], Counter] = {}
        self._sent_back: dict[tuple[str, str], Counter] = {}
        self.dead_letters: dict[tuple[str, str], int] = {}
        """(topic, group) -> messages that became dead letters."""
        self.times = AppendTimes()
        self.stored_all, self.given_all = Counter(), Counter()
        self.missed = 0
        self.failed = 0
        self._seconds: deque[_Second] = deque(maxlen=RATES_S[-1] + 1)
        self._next_ms: dict[str, int] = {}
        self._day: int | None = None
        self.this_morning = (0, 0)
        """Messages stored and given until midnight."""
        self.yesterday_morning = (0, 0)

    def stored(self, topic: str, messages: int, size: int, kind: str = NORMAL) -> None:
        """One send: so many messages, so many bytes of the log. `kind`: RocketMQ's message type."""
        self.stored_all.add(messages, size)
        if kind != NORMAL:
            self._of_kind(topic, kind).add(messages, size)
        one = self._topics.get(topic)
        if one is None:
            if len(self._topics) >= KEYS_MAX:
                return
            one = self._topics[topic] = Counter()
        one.add(messages, size)

    def not_stored(self, sends: int) -> None:
        """So many did not get into the log."""
        self.failed += sends

    def given(self, topic: str, group: str, messages: int, size: int) -> None:
        """One read of a group."""
        if not messages:
            self.missed += 1
            return
        self.given_all.add(messages, size)
        one = self._groups.get((topic, group))
        if one is None:
            if len(self._groups) >= KEYS_MAX:
                return
            one = self._groups[topic, group] = Counter()
        one.add(messages, size)

    def sent_back(self, topic: str, group: str, *, dead: bool) -> None:
        """A consumer could not do with a message."""
        key = topic, group
        one = self._sent_back.get(key)
        if one is None:
            if len(self._sent_back) >= KEYS_MAX:
                return
            one = self._sent_back[key] = Counter()
        one.add(1, 0)
        if dead:
            self.dead_letters[key] = self.dead_letters.get(key, 0) + 1

    def _of_kind(self, topic: str, kind: str) -> Counter:
        one = self._kinds.get((topic, kind))
        if one is None:
            if len(self._kinds) >= KEYS_MAX:
                return Counter()
            one = self._kinds[topic, kind] = Counter()
        return one

    def by_kind(self) -> Iterator[tuple[tuple[str, str], int, int]]:
        """((topic, message type), messages, bytes) stored."""
        for topic, one in self._topics.items():
            messages, size = one.messages, one.size
            for kind in KINDS:
                special = self._kinds.get((topic, kind))
                if special is not None:
                    messages, size = messages - special.messages, size - special.size
                    yield (topic, kind), special.messages, special.size
            if messages > 0:
                yield (topic, NORMAL), messages, size

    def by_group(self) -> Iterator[tuple[tuple[str, str], int, int]]:
        """((topic, group), messages, bytes) given."""
        return ((key, one.messages, one.size) for key, one in self._groups.items())

    def sample(self, now_ms: int, day: int, timed: tuple[int, int] = (0, 0)) -> None:
        """Every second or so. `now_ms` is monotonic; `day`: a number that is another one after
        midnight; `timed`: messages that went into the wheel and came out of it.
        """
        self.times.sample(now_ms)
        stored, given = self.stored_all, self.given_all
        if day != self._day:
            if self._day is not None:
                self.yesterday_morning = self.this_morning
                self.this_morning = (stored.messages, given.messages)
            self._day = day
        self._seconds.append(
            _Second(now_ms, stored.messages, given.calls, self.missed, given.messages, *timed)
        )
        for name, (every_ms, _) in ROWS.items():
            if now_ms >= self._next_ms.get(name, now_ms):
                self._next_ms[name] = now_ms + every_ms
                for one in self._counters():
                    one.snapshot(name, now_ms)
                if name == "statsDay":
                    self._forget_idle()

    def _counters(self) -> list[Counter]:
        by_key = (*self._topics.values(), *self._groups.values(), *self._sent_back.values())
        return [self.stored_all, self.given_all, *by_key]

    def _forget_idle(self) -> None:
        for topic in [topic for topic, one in self._topics.items() if one.is_idle]:
            del self._topics[topic]
            for kind in KINDS:
                self._kinds.pop((topic, kind), None)
        for key in [key for key, one in self._groups.items() if one.is_idle]:
            del self._groups[key]
        for key in [key for key, one in self._sent_back.items() if one.is_idle]:
            del self._sent_back[key]
            self.dead_letters.pop(key, None)

    def view(self, name: str, key: str) -> dict[str, dict[str, float | int]] | None:
        """What 315 answers; None: nothing was counted under this name and key."""
        one = self._counter(name, key)
        if one is None:
            return None
        of_bytes = name.endswith("_SIZE")
        return {row: one.view(row, of_bytes=of_bytes) for row in ROWS}

    def _counter(self, name: str, key: str) -> Counter | None:
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            return self._topics.get(key)
        if name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            topic, _, group = key.partition("@")
            return self._groups.get((topic, group))
        if name == "SNDBCK_PUT_NUMS":
            topic, _, group = key.partition("@")
            return self._sent_back.get((topic, group))
        whole = {"BROKER_PUT_NUMS": self.stored_all, "BROKER_GET_NUMS": self.given_all}
        return whole.get(name) if key == self._cluster_name else None

    def topic_rate(self, topic: str) -> float:
        """Messages per second stored, over the last minute."""
        one = self._topics.get(topic)
        return 0.0 if one is None else float(one.view("statsMinute", of_bytes=False)["tps"])

    def group_rate(self, topic: str, group: str) -> float:
        """Messages per second given, over the last minute."""
        one = self._groups.get((topic, group))
        return 0.0 if one is None else float(one.view("statsMinute", of_bytes=False)["tps"])

    def rates(self) -> dict[str, str]:
        """Rates of the last 10, 60 and 600 s as RocketMQ's runtime table names and writes them."""
        columns = {
            "putTps": (1,),
            "getFoundTps": (2,),
            "getMissTps": (3,),
            "getTotalTps": (2, 3),
            "getTransferredTps": (4,),
            "getTransferedTps": (4,),  # older tools' spelling
        }
        return {
            name: " ".join(f"{self._rate(fields, seconds):.4f}" for seconds in RATES_S)
            for name, fields in columns.items()
        }

    def timer_rates(self) -> tuple[float, float]:
        """Messages per second into the wheel and out of it, over the last minute."""
        return self._rate((5,), 60), self._rate((6,), 60)

    def _rate(self, fields: tuple[int, ...], seconds: int) -> float:
        if len(self._seconds) < 2:
            return 0.0
        last = self._seconds[-1]
        first = self._seconds[max(0, len(self._seconds) - 1 - seconds)]
        passed_s = (last.at_ms - first.at_ms) / SECOND_MS
        counted = sum(last[field] - first[field] for field in fields)
        return counted / passed_s if passed_s > 0 else 0.0
