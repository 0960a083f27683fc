"""Bytes of wheel and log, as RocketMQ 5.3.3 wrote them."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.service.tables.kept_for_java import TimerCheckPoint
from brokers.service.timers.formats import (
    BLANK_MAGIC,
    SLOT_BYTES,
    UNIT_BYTES,
    WHEEL_BYTES,
    Slot,
    Unit,
    is_blank,
    needs_next_file,
    pack_blank,
    pack_slot,
    pack_unit,
    read_slot,
    read_unit,
    slot_index,
)
from brokers.store.log.properties import java_string_hash

GOLDEN = Path("tests/golden/store")
RECORDED = bytes.fromhex(
    "00000034ffffffffffffffff00000001000001a206fba1e000001388000000000000026c0000010200000a5d"
    "0000000000000000"
)


def test_the_recorded_first_unit_of_a_slot() -> None:
    unit = Unit(-1, 1, 1_795_413_484_000, 5_000, 620, 258, java_string_hash("T1"))
    assert pack_unit(unit) == RECORDED
    assert read_unit(RECORDED) == unit
    assert unit.slot_ms == 1_795_413_489_000 and not unit.rolls and not unit.recalls


def test_a_unit_of_a_recorded_log() -> None:
    data = (GOLDEN / "timerlog_first_4k").read_bytes()
    unit = read_unit(data)
    assert unit is not None and pack_unit(unit) == data[:UNIT_BYTES]
    assert (unit.previous, unit.magic, unit.delay_ms) == (-1, 1, 2_000)
    assert unit.topic_hash == java_string_hash("Life")
    assert read_unit(data, UNIT_BYTES) is None


def test_the_recorded_slot() -> None:
    slot = Slot(1_795_413_488_000, 52, 52, 1)
    assert slot_index(slot.time_ms, 1_000) == 367_088
    data = pack_slot(slot, 1_000)
    assert data == struct.pack(">qqqii", 1_795_413_488, 52, 52, 1, 0)
    assert len(data) == SLOT_BYTES and read_slot(data, 0, 1_000) == slot
    assert WHEEL_BYTES == 38_707_200


def test_33_the_recorded_check_point() -> None:
    data = (GOLDEN / "timercheck").read_bytes()
    assert len(data) == 4096
    table = TimerCheckPoint()
    table.from_file(data)
    assert table.to_file() == data
    assert (table.read_ms, table.log_flushed, table.own_offset, table.offset) == (
        1_795_227_325_000, 52, 1, 1,
    )  # fmt: skip
    assert table.body(0) == data[:56]


@pytest.mark.parametrize(
    ("magic", "rolls", "recalls"), [(1, False, False), (3, True, False), (5, False, True),
                                    (7, True, False)],
)  # fmt: skip
def test_what_the_bits_say(magic: int, rolls: bool, recalls: bool) -> None:
    unit = Unit(0, magic, 1_000, 0, 0, 91, 0)
    assert (unit.rolls, unit.recalls) == (rolls, recalls)


def test_the_end_of_a_file() -> None:
    assert pack_blank(60) == struct.pack(">iqI", 60, 0, BLANK_MAGIC)
    assert is_blank(pack_blank(60)) and not is_blank(bytes(16)) and not is_blank(b"")
    assert read_unit(pack_blank(60) + bytes(60)) is None
    assert not needs_next_file(4096 - 68, 4096) and needs_next_file(4096 - 67, 4096)


@pytest.mark.parametrize("length", range(0, UNIT_BYTES, 7))
def test_a_unit_that_is_cut_off_is_none(length: int) -> None:
    assert read_unit(RECORDED[:length]) is None


@given(st.binary(min_size=UNIT_BYTES, max_size=UNIT_BYTES))
def test_hostile_units_are_refused_or_make_sense(data: bytes) -> None:
    unit = read_unit(struct.pack(">i", UNIT_BYTES) + data[4:])
    assert unit is None or (unit.offset >= 0 and unit.size > 0 and unit.previous >= -1)


@given(st.binary(min_size=SLOT_BYTES, max_size=SLOT_BYTES))
def test_hostile_slots_are_refused_or_make_sense(data: bytes) -> None:
    slot = read_slot(data, 0, 1_000)
    assert slot is None or (slot.time_ms > 0 and 0 <= slot.first <= slot.last)
