"""Damage in a piece of the log, whatever it hits."""

from hypothesis import given
from hypothesis import strategies as st

from brokers.log.records import encode_blank
from brokers.log.scrub import next_record, scrub
from tests.unit.brokers.log.log_samples import encoded, message

FILE = 1 << 16
START = 3 * FILE


def piece(count: int = 6, tag: str = "a") -> tuple[bytes, list[int]]:
    """Messages of different sizes from START on, and where each begins."""
    data, places = b"", []
    for number in range(count):
        places.append(START + len(data))
        data += encoded(message(body=b"%d" % number * (number + 1), tag=tag), slot=number, at=places[-1])
    return data, places


def test_sound_bytes_have_no_damage() -> None:
    data, _ = piece()
    assert scrub(data, START, FILE, whole=False) == (START + len(data), [])


def test_a_record_beyond_the_piece_is_for_the_next_one() -> None:
    data, places = piece()
    assert scrub(data[:-1], START, FILE, whole=False) == (places[-1], [])


def test_a_blank_end_of_the_file_is_no_damage() -> None:
    data, _ = piece()
    left = FILE - len(data)
    assert scrub(data + encode_blank(left) + bytes(left - 8), START, FILE, whole=True) == (START + FILE, [])


@given(st.integers(0, 5), st.data())
def test_a_damaged_record_is_named_and_those_behind_it_are_looked_at(number: int, draw: st.DataObject) -> None:
    data, places = piece()
    ends = [*places[1:], START + len(data)]
    at = draw.draw(st.sampled_from([0, 3, 5, 9, 30, 35, 88]))
    damaged = bytearray(data)
    damaged[places[number] - START + at] ^= 0x40
    found = scrub(bytes(damaged), START, FILE, whole=True)
    assert found.end == START + len(data)
    (bad,) = found.bad
    assert bad.place.offset == places[number] and bad.reason
    assert bad.place.size == (ends[number] - places[number] if number < 5 else 0)


def test_several_damaged_records_are_all_found() -> None:
    data, places = piece()
    damaged = bytearray(data)
    for number in (1, 4):
        damaged[places[number] - START + 90] ^= 1
    assert [bad.place.offset for bad in scrub(bytes(damaged), START, FILE, whole=False).bad] == [places[1], places[4]]


def test_the_magic_inside_a_body_begins_no_record() -> None:
    inner = encoded(message(body=b"inner"), at=7)
    data = encoded(message(body=inner), at=START) + encoded(message(), at=START + 0)
    assert next_record(data, START, START + 1) is None


@given(st.binary(max_size=500))
def test_any_bytes_come_to_an_end(data: bytes) -> None:
    assert scrub(data, START, FILE, whole=True).end == START + len(data)
