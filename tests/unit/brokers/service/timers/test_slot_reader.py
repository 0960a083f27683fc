"""One slot: its messages in their order, without what was recalled, is there twice, or is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.service.sending.timed import TIMER_TOPIC, TimerRules, rolled
from brokers.service.timers import slot_reader
from brokers.service.timers.formats import MAGIC, MAGIC_ROLL, Unit
from brokers.service.timers.slot_reader import SlotReader, records_of
from brokers.service.timers.time_rules import Target
from brokers.service.timers.timer_files import Entry, TimerFiles, open_files
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, StoredMessage, host_bytes
from brokers.store.store import MessageStore, StoreConfig

T = 1_795_413_488_000
HOST = host_bytes("127.0.0.1", 1)
RULES = TimerRules(log_file_bytes=4_096)


class Rig:
    """A store, and messages of one slot in it."""

    def __init__(self, root: Path) -> None:
        self.store = MessageStore(root, StoreConfig(log_file_bytes=1 << 16))
        self.files: TimerFiles = open_files(
            root, RULES, flushed=0, enqueued=0, now_ms=T, queue_offset_of=lambda unit: 0
        )

    def waiting(self, key: str, **more: object) -> MessageFields:
        entries = {"UNIQ_KEY": key, "TIMER_OUT_MS": T, "REAL_TOPIC": "T", "REAL_QID": 1, **more}
        text = encode_properties({name: str(value) for name, value in entries.items()})
        return MessageFields(TIMER_TOPIC, 0, key.encode(), text, 1, HOST, HOST)

    def add(
        self,
        message: MessageFields,
        *,
        rolls: bool = False,
        deletes: bool = False,
        stored_ms: int = T - 5_000,
    ) -> tuple[int, int]:
        result = self.store.put(message, stored_ms)
        place = result.physical_offset, result.end_offset - result.physical_offset
        self.files.put([Entry(Target(T, rolls), T - 5_000, *place, 7, deletes)])
        return place

    def reader(self) -> SlotReader:
        slot = self.files.wheel.slot(T)
        assert slot is not None
        return SlotReader(slot, self.files.log, self.store.log, RULES, lambda *_: False)

    def read(self) -> tuple[list[MessageFields], SlotReader]:
        """Everything, as the service takes it."""
        reader, copies = self.reader(), []
        while reader.prepare(self.store.log_end):
            pass
        while not reader.is_over:
            chunk = reader.chunk(self.store.log_end, T + 1_000)
            assert chunk.bad is None
            copies += chunk.copies
            reader.done(chunk)
        return copies, reader


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.files.close()
    made.store.close()


def keys(copies: list[MessageFields]) -> list[str]:
    return [bytes(copy.body).decode() for copy in copies]


def test_36_messages_come_in_the_order_in_which_they_came(rig: Rig) -> None:
    for number in range(150):  # over files of the log, and of its wheel
        rig.add(rig.waiting(f"{number:03d}"))
    copies, _ = rig.read()
    assert keys(copies) == [f"{number:03d}" for number in range(150)]
    assert {(copy.topic, copy.queue_id) for copy in copies} == {("T", 1)}
    assert decode_properties(copies[0].properties)["TIMER_ENQUEUE_MS"] == str(T - 5_000)


def test_a_large_slot_is_looked_through_step_by_step(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_reader, "STEP_UNITS", 10)
    for number in range(95):
        rig.add(rig.waiting(f"{number:03d}"))
    reader, steps = rig.reader(), 0
    while reader.prepare(rig.store.log_end):
        steps += 1
    assert steps >= 10
    first = reader.chunk(rig.store.log_end, T)
    assert len(first.copies) == slot_reader.CHUNK
    again = reader.chunk(rig.store.log_end, T)
    assert again.copies == first.copies, "nothing is passed that is not done"


def test_27_recalls_anywhere_in_the_slot_take_their_messages(rig: Rig) -> None:
    rig.add(rig.waiting("r1", TIMER_DEL_UNIQKEY="T+b"), deletes=True)
    for key in ("a", "b", "c", "d"):
        rig.add(rig.waiting(key))
    rig.add(rig.waiting("other topic", REAL_TOPIC="U"))
    for number in range(80):
        rig.add(rig.waiting(f"r{number}", TIMER_DEL_UNIQKEY=f"T+x{number}"), deletes=True)
    rig.add(rig.waiting("r2", TIMER_DEL_UNIQKEY="T+d"), deletes=True)
    copies, _ = rig.read()
    assert keys(copies) == ["a", "c", "other topic"]


def test_30_a_message_and_its_roll_are_one_in_any_order(rig: Rig) -> None:
    far = T - 3 * 86_400_000
    first = rig.waiting("x")
    rig.add(first, stored_ms=far)
    rig.add(rig.waiting("y"), stored_ms=far)
    rig.add(rolled(first, far, T - 9_000))
    rig.add(rolled(first, far, T - 8_000))
    rig.add(rig.waiting("z"))
    rig.add(rig.waiting("z"))  # sent twice by its producer a moment ago: no roll
    copies, _ = rig.read()
    assert keys(copies) == ["x", "y", "z", "z"]


def test_30_what_rolls_goes_back_to_the_timer_topic_recalls_too(rig: Rig) -> None:
    rig.add(rig.waiting("a", TIMER_OUT_MS=T + 86_400_000), rolls=True)
    rig.add(rig.waiting("r", TIMER_OUT_MS=T + 86_400_000, TIMER_DEL_UNIQKEY="T+a"), rolls=True,
            deletes=True)  # fmt: skip
    copies, _ = rig.read()
    assert [copy.topic for copy in copies] == [TIMER_TOPIC] * 2 and keys(copies) == ["a", "r"]
    found = decode_properties(copies[0].properties)
    assert found["TIMER_OUT_MS"] == str(T + 86_400_000) and found["TIMER_ROLL_TIMES"] == "1"


def test_records_that_are_others_or_gone_are_passed(rig: Rig) -> None:
    place = rig.add(rig.waiting("a"))
    rig.add(rig.waiting("of another slot", TIMER_OUT_MS=T + 60_000))
    rig.add(MessageFields("U", 0, b"u", b"", 1, HOST, HOST))
    for offset, size in ((place[0] + 1, place[1]), (0, place[1] - 1), (1 << 40, 91), (0, 1 << 30)):
        rig.files.put([Entry(Target(T, False), T, offset, size, 7, False)])
    rig.add(rig.waiting("b"))
    copies, _ = rig.read()
    assert keys(copies) == ["a", "b"]


def test_a_record_that_goes_nowhere_is_told(rig: Rig) -> None:
    rig.add(rig.waiting("a", REAL_QID="x"))
    rig.add(rig.waiting("b"))
    reader = rig.reader()
    while reader.prepare(rig.store.log_end):
        pass
    chunk = reader.chunk(rig.store.log_end, T)
    assert keys(chunk.copies) == ["b"] and chunk.units == 2
    assert chunk.refused == ["it does not say to which queue it goes"]


def test_a_damaged_message_stops_the_slot_in_front_of_itself(rig: Rig, tmp_path: Path) -> None:
    rig.add(rig.waiting("a"))
    offset, _ = rig.add(rig.waiting("damaged" * 9))
    rig.add(rig.waiting("b"))
    path = next((tmp_path / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(b"damaged" * 9, offset)] ^= 1
    path.write_bytes(data)
    reader = rig.reader()
    while reader.prepare(rig.store.log_end):
        pass
    chunk = reader.chunk(rig.store.log_end, T)
    assert keys(chunk.copies) == ["a"] and chunk.bad is not None
    reader.done(chunk)
    chunk = reader.chunk(rig.store.log_end, T)
    assert not chunk.units and chunk.bad is not None and "checksum" in chunk.bad.reason
    reader.pass_over()
    assert keys(reader.chunk(rig.store.log_end, T).copies) == ["b"]


def test_records_are_found_whatever_lies_between_them(rig: Rig) -> None:
    units = []
    for number in range(300):
        message = rig.waiting(f"{number:03d}")
        if number % 3:
            rig.store.put(MessageFields("U", 0, b"u" * 700, b"", 1, HOST, HOST), T)
        result = rig.store.put(message, T)
        size = result.end_offset - result.physical_offset
        units.append(Unit(-1, MAGIC | MAGIC_ROLL, T, 0, result.physical_offset, size, 7))
    found = records_of(rig.store.log, units[::-1] + units, rig.store.log_end)
    bodies = [bytes(each.fields.body).decode() for each in found if isinstance(each, StoredMessage)]
    names = [f"{number:03d}" for number in range(300)]
    assert bodies == names[::-1] + names
    assert not any(isinstance(each, BadRecord) for each in found)
    short = records_of(rig.store.log, units, units[10].offset)
    assert sum(each is not None for each in short) == 10
