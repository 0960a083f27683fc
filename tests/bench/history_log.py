"""A generated history on a real log, all at once or at a rate: commands, their outcomes and what
brokers said.

Refuses to know what reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Producer

from events.codec import decode
from events.outcomes import Outcome
from events.producer import PRODUCER_SETTINGS
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from tests.support.generated_history import GeneratedHistory

QUEUE_RECORDS = 200_000
FLUSH_S = 120.0
NOW = 0
"""As a timestamp: the producer's own moment."""


@dataclass
class HistoryLog:
    """Writes the commands of a history in order, each with its outcomes; broker events go along in
    proportion.
    """

    kafka: Mapping[str, str]
    history: GeneratedHistory
    written: int = 0
    """Commands so far."""
    own_times: bool = False
    """Records bear the history's timestamps instead of those of the moment."""
    _outcomes: Iterator[tuple[int, int, bytes]] = field(init=False)
    _events: Iterator[tuple[int, int, bytes]] = field(init=False)

    def __post_init__(self) -> None:
        settings = {
            **PRODUCER_SETTINGS,
            **self.kafka,
            "linger.ms": 5,
            ("queue.buffering.max.messages"): QUEUE_RECORDS,
        }
        self._producer = Producer(settings)
        timed = zip(self.history.outcomes_ms, self.history.outcomes, strict=True)
        self._outcomes = ((_about(data), at_ms, data) for at_ms, data in timed)
        events = [
            (at_ms, partition, data)
            for partition, (times, values) in enumerate(
                zip(self.history.events_ms, self.history.events, strict=True)
            )
            for at_ms, data in zip(times, values, strict=True)
        ]
        # What one partition has at one time keeps its order.
        self._events = iter(sorted(events, key=lambda one: one[0]))
        self._next_outcome, self._next_event = next(self._outcomes, None), next(self._events, None)

    def write(self, count: int, *, events: bool = True) -> None:
        """The next `count` commands as fast as the log takes them; returns when it has them."""
        for _ in range(count):
            self._one(events)
        self.flush()

    def write_at(self, rate: float, count: int) -> dict[int, float]:
        """The next `count` commands evenly, without broker events; offset -> monotonic time at
        which it was handed over.
        """
        handed, began = {}, time.monotonic()
        for number in range(count):
            pause_s = began + number / rate - time.monotonic()
            if pause_s > 0:
                self._producer.poll(0)
                time.sleep(pause_s)
            handed[self.written] = time.monotonic()
            self._one(events=False)
        self.flush()
        return handed

    def flush(self) -> None:
        """Until the log has everything. RuntimeError when it does not take it."""
        if self._producer.flush(FLUSH_S):
            raise RuntimeError(f"Kafka did not take the history within {FLUSH_S:.0f} s")

    def _one(self, events: bool) -> None:
        offset, until_ms = self.written, self.history.commands_ms[self.written]
        self._produce(COMMANDS_TOPIC, self.history.commands[offset], 0, until_ms)
        self.written += 1
        while self._next_outcome is not None and self._next_outcome[0] <= offset:
            self._produce(OUTCOMES_TOPIC, self._next_outcome[2], 0, self._next_outcome[1])
            self._next_outcome = next(self._outcomes, None)
        while events and self._next_event is not None and self._next_event[0] <= until_ms:
            self._produce(
                BROKER_EVENTS_TOPIC, self._next_event[2], self._next_event[1], self._next_event[0]
            )
            self._next_event = next(self._events, None)

    def _produce(self, topic: str, data: bytes, partition: int, at_ms: int) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, data, partition=partition, timestamp=at_ms if self.own_times else NOW
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)


def _about(data: bytes) -> int:
    outcome = decode(data)
    assert isinstance(outcome, Outcome)
    return outcome.command_offset
