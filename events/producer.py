"""Appending to a topic of the log, from one asyncio loop.

Responsible for: a synchronous confluent producer polled from the loop, a bound on what is in
flight, and giving out each delivery report.
Refuses to know: what the bytes mean, and what to do about a report.

A report without an offset means *unknown*, never *failed*: the record may still be in the log.

Polled by a thread, the producer takes Python's lock anew for every single report, and beside a busy
loop it waits for it one switch interval each time: that alone bounded a controller to some thousand
decisions a second.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_log = logging.getLogger("regent.producer")

IN_FLIGHT_MAX = 50_000
BUSY_POLL_S = 0.002
"""While reports are due: nobody's answer waits for one (it comes with the record itself), only its
stamp.
"""
IDLE_POLL_S = 0.05
CLOSE_WAIT_S = 2.0

LOG_CLIENT_SETTINGS: Mapping[str, Any] = {
    # Short times: a broker that is paused or cut off must not hold its clients for a minute.
    "socket.timeout.ms": 2_000,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    # A refused connection is told by who wanted something, in one line; the library tells every
    # attempt, on stderr.
    "log_level": 2,
}
PRODUCER_SETTINGS: Mapping[str, Any] = {
    **LOG_CLIENT_SETTINGS,
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "request.timeout.ms": 1_500,
    "delivery.timeout.ms": 10_000,
}

Report = Callable[[int | None], None]
"""Called in the loop with the offset of the record, or None when its fate is unknown."""


class LogProducer:
    """Appends to one topic in the order of the calls. `append` belongs to the loop's thread.

    `stall_ms`: when nothing was reported for this long although records wait, what has not been
    sent yet is dropped (0: never), so that an answer of *unknown* is not followed by an append much
    later.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        topic: str,
        loop: asyncio.AbstractEventLoop,
        *,
        stall_ms: int = 0,
        on_fatal: Callable[[str], None] | None = None,
    ) -> None:
        self._topic = topic
        self._loop = loop
        self._stall_s = stall_ms / 1000
        self._on_fatal = on_fatal
        self._producer = Producer({**PRODUCER_SETTINGS, **kafka, "error_cb": self._failed})
        self._waiting: OrderedDict[int, tuple[Report, float]] = OrderedDict()
        self._next = 0
        self._reports: list[tuple[Report, int | None]] = []
        self._timer = loop.call_later(IDLE_POLL_S, self._poll)
        self._busy = False

    @property
    def in_flight(self) -> int:
        """Records without a report yet."""
        return len(self._waiting)

    async def warm_up(self, timeout_s: float = 10.0) -> None:
        """Connect and learn the topic now, so that the first append does not wait. Raises
        KafkaException.
        """
        await asyncio.to_thread(self._producer.list_topics, self._topic, timeout_s)

    def append(
        self, data: bytes, report: Report, *, key: bytes | None = None, partition: int | None = 0
    ) -> bool:
        """Append `data`; `report` is called in the loop exactly once. `partition` None: by key.

        False when it was not even queued.
        """
        if len(self._waiting) >= IN_FLIGHT_MAX:
            self._loop.call_soon(report, None)
            return False
        self._next = number = self._next + 1
        self._waiting[number] = (report, time.monotonic())
        if not self._busy:
            self._poll_again(BUSY_POLL_S)
        try:
            at: dict[str, Any] = {} if partition is None else {"partition": partition}
            self._producer.produce(
                self._topic,
                value=data,
                key=key,
                on_delivery=lambda error, message: self._delivered(number, error, message),
                **at,
            )
        except (BufferError, KafkaException) as error:
            _log.warning("%s: not appended: %s", self._topic, error)
            self._report(number, None)
            self._loop.call_soon(self._hand_over)
            return False
        return True

    async def close(self, timeout_s: float = CLOSE_WAIT_S) -> None:
        """Wait a bounded time for reports, then stop; what is still open is reported as unknown."""
        deadline = time.monotonic() + timeout_s
        while self._waiting and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._timer.cancel()
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.poll(0)
        for number in list(self._waiting):
            self._report(number, None)
        self._hand_over()

    def _poll(self) -> None:
        self._producer.poll(0)
        if self._stall_s and self._oldest_age_s() > self._stall_s:
            self._producer.purge(in_queue=True, in_flight=False, blocking=False)
        self._poll_again(BUSY_POLL_S if self._waiting else IDLE_POLL_S)
        self._hand_over()

    def _poll_again(self, after_s: float) -> None:
        self._timer.cancel()
        self._busy = after_s < IDLE_POLL_S
        self._timer = self._loop.call_later(after_s, self._poll)

    def _oldest_age_s(self) -> float:
        first = next(iter(self._waiting.values()), None)
        return 0.0 if first is None else time.monotonic() - first[1]

    # -- called by the producer, in `poll` ---------------------------------------------------------

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            _log.warning("%s: no acknowledgement: %s", self._topic, error.str())
        self._report(number, None if error is not None else message.offset())

    def _failed(self, error: KafkaError) -> None:
        if not error.fatal():
            _log.debug("%s: %s", self._topic, error.str())
            return
        _log.error("%s: the producer cannot go on: %s", self._topic, error.str())
        if self._on_fatal is not None:
            self._loop.call_soon_threadsafe(self._on_fatal, error.str())

    def _report(self, number: int, offset: int | None) -> None:
        entry = self._waiting.pop(number, None)
        if entry is not None:
            self._reports.append((entry[0], offset))

    def _hand_over(self) -> None:
        reports, self._reports = self._reports, []
        for report, offset in reports:
            report(offset)
