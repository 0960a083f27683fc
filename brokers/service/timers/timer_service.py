"""Delivering messages at their time (PROTOCOL 4.18, 7.4).

Responsible for: from the topic into the wheel and out of the wheel into the log, while this broker
leads, or to another set, while it acts for a master that is away; on a slave only the first, as far
as the master has it. Refuses to know: how a message looks
(`sending.timed`), where one goes (`intake`), what is in a slot (`slot_reader`), what is told
(`keeping`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable

from brokers.acting.forms import Kind
from brokers.clock import Clock
from brokers.service.escape.away import Ways
from brokers.service.role.services import Served, Service
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.outlet import Outlet
from brokers.service.sending.timed import Timed, TimerRules
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.service.timers.deliveries import Deliveries
from brokers.service.timers.formats import SLOTS
from brokers.service.timers.intake import Intake, WheelNow
from brokers.service.timers.keeping import Beside, Keeping
from brokers.service.timers.progress import Progress
from brokers.service.timers.slot_reader import SlotReader
from brokers.service.timers.time_rules import SteadyTime
from brokers.service.timers.timer_files import TimerFiles, has_files, open_files
from brokers.service.timers.waiting_counts import WaitingCounts
from brokers.store.files.errors import LogError
from brokers.store.log.integrity import BadRecord
from brokers.store.queues.query import MESSAGES_MAX
from brokers.store.store import MessageStore

# Slots, and batches of the topic, that are done and not durable everywhere yet; then both wait.
UNSAFE_MAX = 8_192
# Messages dealt with before everybody else has a turn: some milliseconds.
SLICE_MESSAGES = 256
# As RocketMQ's: a put that was refused is tried again after it.
RETRY_MS = 100
# The wheel's own disk refused: the topic holds everything meanwhile.
DISK_RETRY_MS = 1_000
# What is older than half the wheel would be taken for what is to come.
OLDEST_SLOTS = SLOTS // 2 - 60
SLOT = "slot"

_log = logging.getLogger("regent.broker.timers")


class TimerService(Service):
    """The wheel in the store's folder. `did`: what became of its messages. `timed`: how messages
    with a time go into the log.

    `soon(act)`: in the next turn of the loop. `ways`: out of the set; None: there are none, and
    what is due waits for a master. For `repair` see Deliveries, for `beside`, `master_epoch` and
    `topics` Keeping.
    """

    def __init__(
        self,
        store: MessageStore,
        kept: KeptFiles,
        puts: Outlet,
        clock: Clock,
        rules: TimerRules,
        *,
        repair: Callable[[BadRecord, str], object],
        soon: Callable[[Callable[[], None]], object],
        beside: Beside,
        master_epoch: Callable[[], int],
        topics: Callable[[], Iterable[str]],
        ways: Ways | None = None,
    ) -> None:
        self._puts, self._ways = puts, ways
        self._store = store
        self._kept = kept
        self._clock = clock
        self.rules = rules
        self._soon = soon
        self._steady = SteadyTime()
        self.timed = Timed(rules, self.now_ms, self.waiting_in, random.random)
        self.did = Deliveries(puts, clock, repair)
        self._intake = Intake(store, rules, self.did, self.now_ms)
        self._keeping = Keeping(
            store, kept, clock, rules, beside=beside, master_epoch=master_epoch, topics=topics
        )
        self._keeping.safe_offset = lambda: self.did.outlet.safe_offset
        self._files: TimerFiles | None = None
        self._leads = self._going = self._disk_refused = False
        self._progress: Progress | None = None  # of a mastership, once it is under way
        self._counts: WaitingCounts | None = None
        self._reader: SlotReader | None = None
        self._reader_end = 0  # of the last copy of its slot
        self._goal = (0, 0)  # a queue offset, and the time when everything in front of it was there
        self._readable_ms = self._again_ms = 0
        self._cleared_ms = 0  # a slave's slots in front of it are empty
        self._covered_ms = 0  # whatever this wheel has in front of it is delivered for good
        self.now_ms()  # what comes later may be a jump

    def serves(self) -> dict[int, Served]:
        """Nothing: nobody asks for what is due."""
        return {}

    def now_ms(self) -> int:
        """The wheel's time, in ms since 1970."""
        return self._steady.now_ms(self._clock.wall_ms(), self._clock.now_ms())

    def waiting_in(self, slot_ms: int) -> int:
        """Messages in a slot, as far as they are in the wheel yet."""
        slot = None if self._files is None else self._files.wheel.slot(slot_ms)
        return 0 if slot is None else max(0, slot.number)

    @property
    def behind(self) -> int:
        """Messages with a time that are in the log and not in the wheel."""
        known = 0 if self._files is None else self._files.next_offset
        return max(0, self._intake.high() - known)

    @property
    def enabled(self) -> bool:
        """timerWheelEnable."""
        return self.rules.enabled

    @property
    def delivered_until_ms(self) -> int:
        """Everything that waited for an earlier time, in ms since 1970, is in the log under its own
        topic; 0: nobody knows, as while this broker does not lead.
        """
        if not self._leads or not self.rules.enabled:
            return 0
        if self._progress is not None:
            return self._progress.read_ms
        return 0 if self._intake.high() else self.rules.floor(self.now_ms())

    @property
    def waiting(self) -> WaitingCounts | None:
        """How many wait, by topic; None: this broker does not lead, or none ever came."""
        return self._counts

    @property
    def counted(self) -> tuple[int, int]:
        """Messages that went into the wheel and came out of it since the start of the process."""
        return self._intake.enqueued, self.did.delivered

    @property
    def late_ms(self) -> int:
        """How far the slot that is read next lies behind; 0 while this broker does not lead."""
        if self._progress is None:
            return 0
        return max(0, self.now_ms() - self._progress.read_ms - self.rules.precision_ms)

    # -- life ------------------------------------------------------------------------------------

    def mastership_begins(self) -> None:
        """From the places on that the last master handed over."""
        self._leads, self._again_ms = True, 0
        self.did.outlet = self._puts
        self._forget()

    def mastership_over(self) -> None:
        self._leads = False
        self.did.outlet = self._puts
        self._forget()

    def acting_begins(self) -> None:
        """From the same places on."""
        if self._ways is not None:
            self.mastership_begins()
            self.did.outlet = self._ways("timers", Kind.TIMER)

    def acting_over(self) -> None:
        if self.did.outlet is self._puts:
            return
        if self._files is not None and self._progress is not None:
            self._keeping.settle(self._files, self._progress)
            self._keeping.tell(self._files, self._progress)
        self.mastership_over()

    def _forget(self) -> None:
        if self._progress is not None:
            self._covered_ms = self._progress.safe_read_ms
        self._progress = self._counts = self._reader = None
        self._cleared_ms = 0
        self.did.forget()

    def tick(self, now_ms: int) -> None:
        if not self.rules.enabled:
            return
        self.now_ms()  # a jump of the clock shows when somebody looks
        if not self._going and now_ms >= self._again_ms:
            self._slice()
        if self._files is not None:
            self._keeping.look(self._files, self._progress, self._counts, now_ms)

    def close(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            self._keeping.close(files, self._progress)
            files.close()

    def _slice(self) -> None:
        """Some of what is to be done; the rest in the next turn of the loop."""
        self._going = False
        try:
            files = self._opened()
            if files is None:
                return
            more = self._lead(files) if self._leads else self._follow(files)
            self._disk_refused = False
        except NotPut as refusal:
            _log.debug("timed deliveries wait: %s", refusal)
            self._again_ms = self._clock.now_ms() + RETRY_MS
            return
        except (OSError, LogError) as error:
            if not self._disk_refused:
                _log.error("the timer wheel waits for the disk: %s", error)
            self._disk_refused = True
            self._again_ms = self._clock.now_ms() + DISK_RETRY_MS
            return
        if more:
            self._going = True
            self._soon(self._slice)

    def _opened(self) -> TimerFiles | None:
        """None: there never was a message for it, or it is closed. OSError."""
        if self._files is None:
            root = self._store.root
            if not self._intake.high() and not has_files(root):
                return None
            check = self._kept.timer_check_point
            self._files = open_files(
                root,
                self.rules,
                flushed=check.log_flushed,
                enqueued=check.own_offset,
                now_ms=self.now_ms(),
                queue_offset_of=self._intake.queue_offset_of,
            )
            self._keeping.opened()
            self._covered_ms = self.rules.floor(check.read_ms)
            if check.own_offset > check.offset:
                # A slave ahead of its master, whose time says nothing of what only this wheel has.
                _log.info("the timer wheel is made again: it was ahead of a master's")
                self._files.start_over()
        return self._files

    # -- a slave ---------------------------------------------------------------------------------

    def _follow(self, files: TimerFiles) -> bool:
        """Its wheel, as far as its master's is handed over. Whether there is more."""
        check = self._kept.timer_check_point
        read_ms = self.rules.floor(check.read_ms)
        self._intake.within_queue(files)
        if files.next_offset <= check.offset:
            self._covered_ms = read_ms
        more = self._clear(files, min(read_ms, self._covered_ms))
        told = Progress(read_ms, read_ms, check.offset)
        # A slave whose clock is behind would roll a message into a slot that its master has left
        # behind already, and nobody would read it any more.
        write_ms = max(self.rules.floor(self.now_ms()), read_ms)
        return self._intake.take(WheelNow(files, told, write_ms, until=check.offset)) or more

    def _clear(self, files: TimerFiles, read_ms: int) -> bool:
        """Slots that its master delivered for good are empty; whether there are more."""
        step = self.rules.precision_ms
        self._cleared_ms = max(self._cleared_ms, read_ms - SLOTS * step)
        if self._cleared_ms >= read_ms:
            return False
        found = files.wheel.next(self._cleared_ms, read_ms)
        self._cleared_ms = found.time_ms
        if found.slot is not None:
            files.wheel.clear(found.time_ms)
            self._cleared_ms += step
        return self._cleared_ms < read_ms

    # -- the master ------------------------------------------------------------------------------

    def _lead(self, files: TimerFiles) -> bool:
        """Whether there is more to be done now. NotPut, OSError."""
        now_ms = self.now_ms()
        write_ms = self.rules.floor(now_ms)
        self._intake.within_queue(files)
        if files.next_offset > self._intake.high():
            # The wheel knows records that this start has not found confirmed yet: they would be
            # taken for gone, or told as safe.
            return False
        progress, counts = self._begun(files, write_ms)
        self._keeping.settle(files, progress)
        if progress.unsafe >= UNSAFE_MAX:
            return False
        if progress.read_ms > write_ms and self._reader is None:
            # The clock was set back. What was read and may come again must be empty first; until
            # then nothing goes in, for a slot that was read is none for what is not due.
            if progress.unsafe_slots:
                return False
            progress.move_to(write_ms)
        more = False
        if not self.rules.stop_enqueue and progress.read_ms <= write_ms:
            more = self._enqueue(files, progress, counts, write_ms)
        self._see_what_is_there(files, write_ms)
        more |= counts.step(files)
        if not self.rules.stop_dequeue:
            # what is counted as it leaves must have been counted before
            until_ms = min(write_ms, self._readable_ms, counts.counted_ms)
            more |= self._dequeue(files, progress, until_ms, now_ms)
        return more

    def _begun(self, files: TimerFiles, write_ms: int) -> tuple[Progress, WaitingCounts]:
        if self._progress is None or self._counts is None:
            check, step = self._kept.timer_check_point, self.rules.precision_ms
            oldest_ms = write_ms - OLDEST_SLOTS * step
            # where nobody ever said, everything that is in the wheel is to be delivered
            read_ms = self.rules.floor(check.read_ms) if check.read_ms else oldest_ms
            if files.next_offset > check.offset:
                read_ms = min(read_ms, self._covered_ms) if self._covered_ms else read_ms
            if read_ms < oldest_ms:
                # slots of that time may be others' by now: the topic tells what is left
                _log.warning("nothing was delivered for long: the timer wheel is made again")
                files.start_over()
                read_ms = oldest_ms
            files.check_tail(self._intake.queue_offset_of)
            told_offset = min(check.offset, self._intake.high())
            self._progress = Progress(min(read_ms, write_ms), check.read_ms, told_offset)
            self._counts = WaitingCounts(self._progress.read_ms, step)
            self._goal, self._readable_ms = (0, 0), 0
        return self._progress, self._counts

    def _enqueue(
        self, files: TimerFiles, progress: Progress, counts: WaitingCounts, write_ms: int
    ) -> bool:
        """Some messages of the topic; whether there may be more."""
        reading_ms = None if self._reader is None else self._reader.slot_ms
        wheel = WheelNow(files, progress, write_ms, counts, reading_ms)
        return all(self._intake.take(wheel) for _ in range(SLICE_MESSAGES // MESSAGES_MAX))

    def _see_what_is_there(self, files: TimerFiles, write_ms: int) -> None:
        """A slot is read when everything is in the wheel that was there when its time was over: a
        recall is among it.
        """
        offset, time_ms = self._goal
        waits = not self.rules.stop_enqueue and not self._intake.waits
        if files.next_offset >= offset or not waits:
            high = self._intake.high()
            self._readable_ms = write_ms if files.next_offset >= high or not waits else time_ms
            self._goal = (high, write_ms)

    def _dequeue(self, files: TimerFiles, progress: Progress, until_ms: int, now_ms: int) -> bool:
        """Slots in front of `until_ms`; whether more may be due. NotPut, OSError."""
        before = self.did.delivered + self.did.rolled
        while self.did.delivered + self.did.rolled - before < SLICE_MESSAGES:
            if self._reader is None:
                if progress.read_ms >= until_ms:
                    return False
                found = files.wheel.next(progress.read_ms, until_ms)
                progress.move_to(found.time_ms)
                if found.slot is None:
                    continue
                self._reader = SlotReader(
                    found.slot, files.log, self._store.log, self.rules, progress.was_delivered
                )
                self._reader_end = 0
            if self._reader.prepare(self._store.dispatched_offset):
                return True
            if not self._reader.is_over and not self._deliver(self._reader, now_ms):
                return False
            if self._reader.is_over:
                slot_ms = self._reader.slot_ms
                next_ms = slot_ms + self.rules.precision_ms
                progress.slot_read(slot_ms, self._reader_end, next_ms)
                self._reader = None
                if progress.unsafe >= UNSAFE_MAX:
                    return False
        return True

    def _deliver(self, reader: SlotReader, now_ms: int) -> bool:
        """The next messages of a slot; False: one is waited for. NotPut: none of them is put."""
        chunk = reader.chunk(self._store.dispatched_offset, now_ms)
        if not chunk.units and chunk.bad is not None:
            if not self.did.gives_up(chunk.bad, SLOT):
                return False
            reader.pass_over()
            return True
        self.did.sound(SLOT)
        self._reader_end = max(self._reader_end, self.did.put_chunk(chunk))
        reader.done(chunk)
        if self._counts is not None:
            for topic_hash in chunk.topics:
                self._counts.left(reader.slot_ms, topic_hash)
        return True
