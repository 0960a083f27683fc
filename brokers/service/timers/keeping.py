"""What of the wheel is kept and told: its files flushed, the check point, the counts
(PROTOCOL 4.18).

Responsible for: the log on the disk before the wheel, both before the check point says so; safe
places only; old files away. Refuses to know: what is in the wheel, what is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode
from brokers.service.sending.timed import TimerRules
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.service.timers.progress import Progress
from brokers.service.timers.timer_files import TimerFiles
from brokers.service.timers.waiting_counts import WaitingCounts
from brokers.store.files.errors import LogError
from brokers.store.store import MessageStore

TRIM_EVERY_MS = 30_000
COUNTS_EVERY_MS = 1_000

Beside = Callable[[Callable[[], None]], "asyncio.Future[None]"]

_log = logging.getLogger("regent.broker.timers")


class Keeping:
    """`beside(job)`: on another thread. `master_epoch()`: of this mastership. `topics()`: the names
    of all.
    """

    def __init__(
        self,
        store: MessageStore,
        kept: KeptFiles,
        clock: Clock,
        rules: TimerRules,
        *,
        beside: Beside,
        master_epoch: Callable[[], int],
        topics: Callable[[], Iterable[str]],
    ) -> None:
        self._store = store
        self._kept = kept
        self._clock = clock
        self._rules = rules
        self._beside = beside
        self._master_epoch = master_epoch
        self._topics = topics
        self.safe_offset: Callable[[], int] = lambda: store.durable_offset
        """What was put up to there is so for good."""
        self._flush: asyncio.Future[None] | None = None
        self.flushed = (0, 0)
        """End of the timer log in bytes, and the offset of the topic's queue, at the last flush."""
        self._flush_ms = self._counts_ms = self._trim_ms = 0

    def opened(self) -> None:
        """The files are as the check point says."""
        check = self._kept.timer_check_point
        self.flushed = (check.log_flushed, check.own_offset)

    def settle(self, files: TimerFiles, progress: Progress) -> None:
        """Slots whose messages are delivered for good are empty: nothing is there for another
        reader.
        """
        for slot_ms in progress.settle(self.safe_offset()):
            files.wheel.clear(slot_ms)

    def look(
        self,
        files: TimerFiles,
        progress: Progress | None,
        counts: WaitingCounts | None,
        now_ms: int,
    ) -> None:
        """Everything that is due of it. `progress` None: this broker does not lead."""
        if progress is not None:
            self.settle(files, progress)
        self.tell(files, progress)
        if counts is not None and counts.is_whole and now_ms >= self._counts_ms:
            self._counts_ms = now_ms + COUNTS_EVERY_MS
            self._tell_counts(counts)
        if now_ms >= self._flush_ms and (self._flush is None or self._flush.done()):
            self._flush_ms = now_ms + self._rules.flush_interval_ms
            self._begin_flush(files)
        if now_ms >= self._trim_ms:
            self._trim_ms = now_ms + TRIM_EVERY_MS
            self._trim(files)

    def close(self, files: TimerFiles, progress: Progress | None) -> None:
        """Everything is on the disk, and told."""
        end = (files.log.end, files.next_offset)
        try:
            files.log.flush_job()()
            files.wheel.flush_job()()
        except (OSError, LogError) as error:
            _log.error("the timer wheel cannot be written: %s", error)
        else:
            self.flushed = end
            self.tell(files, progress)

    def _begin_flush(self, files: TimerFiles) -> None:
        end = (files.log.end, files.next_offset)
        if end == self.flushed and not files.wheel.unflushed:
            return
        log_job, wheel_job = files.log.flush_job(), files.wheel.flush_job()

        def run() -> None:
            log_job()
            wheel_job()

        def over(done: asyncio.Future[None]) -> None:
            if done.cancelled():
                return
            if (error := done.exception()) is None:
                files.wheel.flushed(wheel_job)
                self.flushed = end
            else:
                _log.error("the timer wheel cannot be flushed: %s", error)

        self._flush = self._beside(run)
        self._flush.add_done_callback(over)

    def tell(self, files: TimerFiles, progress: Progress | None) -> None:
        """The check point that slaves copy and the disk keeps: safe places only."""
        log_end, own_offset = self.flushed
        check = self._kept.timer_check_point
        if progress is None:
            check.put_files(log_end, own_offset)
            return
        # what the master before had done for good is done, in whose wheel ever
        offset = max(progress.told_offset, progress.safe_offset(files.next_offset))
        places = (progress.safe_read_ms, log_end, min(own_offset, offset), offset)
        check.put(places, self._master_epoch(), self._clock.wall_ms())

    def _tell_counts(self, counts: WaitingCounts) -> None:
        there, wall_ms = self._kept.table(RequestCode.GET_TIMER_METRICS), self._clock.wall_ms()
        table: dict[str, object] = {}
        counted = dict.fromkeys(there, 0) | counts.table(self._topics())
        for topic, count in counted.items():
            known = there.get(topic)
            same = isinstance(known, dict) and known.get("count") == count
            table[topic] = known if same else {"count": count, "timeStamp": wall_ms}
        if table != there:
            self._kept.put(RequestCode.GET_TIMER_METRICS, table, wall_ms)

    def _trim(self, files: TimerFiles) -> None:
        low = self._store.log_min
        try:
            files.log.trim(lambda unit: unit.offset < low)
        except OSError as error:
            _log.error("old files of the timer log cannot be removed: %s", error)
