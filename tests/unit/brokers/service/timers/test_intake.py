"""From the topic into the wheel: each message once, in its order, to where it belongs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.timed import TIMER_TOPIC, TimerRules
from brokers.service.timers.deliveries import Deliveries
from brokers.service.timers.intake import Intake, WheelNow
from brokers.service.timers.progress import Progress
from brokers.service.timers.timer_files import TimerFiles, open_files
from brokers.store.appender import PutResult
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, RecordError, host_bytes
from brokers.store.store import MessageStore, StoreConfig

T = 1_795_413_488_000
HOST = host_bytes("127.0.0.1", 1)
RULES = TimerRules()


class Puts:
    """What is put into the log, or why not."""

    def __init__(self) -> None:
        self.copies: list[MessageFields] = []
        self.refuses = False

    def append(self, messages: list[MessageFields]) -> list[PutResult | RecordError]:
        if self.refuses:
            raise NotPut(1, "not now")
        self.copies += messages
        return [PutResult(0, 10_000 + len(self.copies), 0, "") for _ in messages]


class Rig:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = MessageStore(root, StoreConfig(log_file_bytes=1 << 16))
        self.puts = Puts()
        self.repaired: list[BadRecord] = []
        did = Deliveries(self.puts, Clock(), lambda bad, by: self.repaired.append(bad))  # type: ignore[arg-type]
        self.did = did
        self.intake = Intake(self.store, RULES, did, lambda: T)
        self.files: TimerFiles = open_files(
            root,
            RULES,
            flushed=0,
            enqueued=0,
            now_ms=T,
            queue_offset_of=self.intake.queue_offset_of,
        )

    def add(self, key: str, slot_ms: int, **more: object) -> None:
        entries = {"TIMER_OUT_MS": slot_ms, "REAL_TOPIC": "T", "REAL_QID": 1, **more}
        text = encode_properties({name: str(value) for name, value in entries.items() if value})
        self.store.put(MessageFields(TIMER_TOPIC, 0, key.encode(), text, 1, HOST, HOST), T)
        self.store.dispatch_to(self.store.log_end)

    def take(self, progress: Progress, **more: int) -> int:
        turns = 0
        now = WheelNow(self.files, progress, T, **more)  # type: ignore[arg-type]
        while self.intake.take(now):
            turns += 1
        return turns

    def held(self, slot_ms: int) -> int:
        slot = self.files.wheel.slot(slot_ms)
        return 0 if slot is None else slot.number

    def copies(self) -> list[str]:
        return [bytes(copy.body).decode() for copy in self.puts.copies]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.files.close()
    made.store.close()


def test_each_goes_into_its_slot_or_out_at_once(rig: Rig) -> None:
    for key, slot_ms in (("a", T), ("b", T - 1_000), ("c", T - 2_000), ("d", T + 1_000)):
        rig.add(key, slot_ms)
    rig.take(Progress(T - 1_000, 0, 0))
    assert rig.copies() == ["c"] and rig.files.next_offset == 4
    assert [rig.held(T + ms) for ms in (-1_000, 0, 1_000)] == [1, 1, 1]
    found = decode_properties(rig.puts.copies[0].properties)
    assert found["TIMER_ENQUEUE_MS"] == "9223372036854775807"


def test_a_slot_that_is_being_read_takes_nothing_any_more(rig: Rig) -> None:
    rig.add("a", T - 1_000)
    rig.take(Progress(T - 1_000, 0, 0), reading_ms=T - 1_000)
    assert rig.copies() == ["a"] and not rig.held(T - 1_000)


def test_what_the_masters_before_delivered_for_good_is_passed(rig: Rig) -> None:
    for key, slot_ms in (("a", T - 5_000), ("b", T + 1_000), ("c", T - 5_000)):
        rig.add(key, slot_ms)
    rig.take(Progress(T - 1_000, T - 1_000, 2))
    assert rig.copies() == ["c"] and rig.held(T + 1_000) == 1


def test_what_is_refused_is_done_once_and_for_all_later(rig: Rig) -> None:
    for key, slot_ms in (("a", T), ("b", T - 9_000), ("c", T)):
        rig.add(key, slot_ms)
    progress = Progress(T - 1_000, 0, 0)
    rig.puts.refuses = True
    for _ in range(3):
        with pytest.raises(NotPut):
            rig.take(progress)
    assert rig.files.next_offset == 1 and rig.held(T) == 1
    rig.puts.refuses = False
    rig.take(progress)
    assert rig.copies() == ["b"] and rig.held(T) == 2


def test_places_are_safe_when_records_and_copies_are(rig: Rig) -> None:
    rig.add("a", T)
    end = rig.store.log_end
    rig.add("b", T - 9_000)
    progress = Progress(T - 1_000, 0, 0)
    rig.take(progress)
    progress.settle(end)
    assert progress.safe_offset(2) == 1
    progress.settle(10_000)
    assert progress.safe_offset(2) == 1
    progress.settle(10_001)
    assert progress.safe_offset(2) == 2


def test_35_a_record_that_says_nothing_is_counted_and_passed(rig: Rig) -> None:
    rig.add("a", 0)
    rig.add("b", T, REAL_TOPIC=None)
    rig.add("c", T)
    rig.take(Progress(T - 1_000, 0, 0))
    assert rig.did.parked == 2 and rig.held(T) == 1 and rig.files.next_offset == 3


def test_a_slave_goes_no_further_than_its_master_and_delivers_nothing(rig: Rig) -> None:
    for number in range(70):
        rig.add(f"{number}", T - 9_000)
    rig.take(Progress(T - 10_000, T - 10_000, 50), until=50)
    assert rig.files.next_offset == 50 and rig.held(T - 9_000) == 50 and not rig.copies()


def test_a_queue_that_was_cut_takes_units_back(rig: Rig) -> None:
    rig.add("a", T)
    end = rig.store.log_end
    rig.add("b", T)
    rig.take(Progress(T - 1_000, 0, 0))
    rig.store.truncate(end)
    rig.intake.within_queue(rig.files)
    assert rig.files.next_offset == 1 and rig.held(T) == 1
    rig.add("other b", T)
    rig.take(Progress(T - 1_000, 0, 0))
    assert rig.held(T) == 2


def test_what_is_in_the_log_and_not_in_its_queue_yet_stays_in_the_wheel(rig: Rig) -> None:
    for key in ("a", "b"):
        rig.add(key, T)
    rig.take(Progress(T - 1_000, 0, 0))
    low, high = rig.store.queue_bounds(TIMER_TOPIC, 0)
    rig.store.queue_bounds = lambda topic, queue: (low, high - 1)  # type: ignore[method-assign]
    rig.intake.within_queue(rig.files)
    assert rig.files.next_offset == 2 and rig.held(T) == 2


def test_a_damaged_record_is_waited_for(rig: Rig) -> None:
    rig.add("a" * 60, T)
    rig.add("b", T)
    path = next((rig.root / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(b"a" * 60)] ^= 1
    path.write_bytes(data)
    assert rig.take(Progress(T - 1_000, 0, 0)) == 0
    assert rig.intake.waits and rig.repaired and rig.files.next_offset == 0
