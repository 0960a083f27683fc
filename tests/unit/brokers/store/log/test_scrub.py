"""Damage in a piece of the log, whatever it hits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.records import encode_blank
from brokers.store.log.scrub import Scrubbed, next_record, scrub
from tests.unit.brokers.store.log_samples import encoded, message

FILE = 1 << 16
START = 3 * FILE


def piece(count: int = 6, tag: str = "a") -> tuple[bytes, list[int]]:
    """Messages of different sizes from START on, and where each begins."""
    data, places = b"", []
    for number in range(count):
        places.append(START + len(data))
        data += encoded(
            message(body=b"%d" % number * (number + 1), tag=tag), slot=number, at=places[-1]
        )
    return data, places


def test_sound_bytes_have_no_damage() -> None:
    data, _ = piece()
    assert scrub(data, START, FILE, whole=False) == Scrubbed(START + len(data), [])


def test_a_record_beyond_the_piece_is_for_the_next_one() -> None:
    data, places = piece()
    assert scrub(data[:-1], START, FILE, whole=False) == Scrubbed(places[-1], [])


def test_a_blank_end_of_the_file_is_no_damage() -> None:
    data, _ = piece()
    left = FILE - len(data)
    assert scrub(data + encode_blank(left) + bytes(left - 8), START, FILE, whole=True) == Scrubbed(
        START + FILE, []
    )


@given(st.integers(0, 5), st.data())
def test_a_damaged_record_is_named_and_those_behind_it_are_looked_at(
    number: int, draw: st.DataObject
) -> None:
    data, places = piece()
    ends = [*places[1:], START + len(data)]
    at = draw.draw(st.sampled_from([0, 3, 5, 9, 30, 35, 88]))
    damaged = bytearray(data)
    damaged[places[number] - START + at] ^= 0x40
    found = scrub(bytes(damaged), START, FILE, whole=True)
    assert found.end == START + len(data) or (found.lost and number == 5)
    (bad,) = found.bad
    assert bad.place.offset == places[number] and bad.reason
    known = number < 5 and at not in (0, 3)  # its length leads to the next one
    assert bad.place.size == (ends[number] - places[number] if known else 0) and bad.proven


def test_several_damaged_records_are_all_found() -> None:
    data, places = piece()
    damaged = bytearray(data)
    for number in (1, 4):
        damaged[places[number] - START + 90] ^= 1
    assert [bad.place.offset for bad in scrub(bytes(damaged), START, FILE, whole=False).bad] == [
        places[1],
        places[4],
    ]


def test_the_magic_inside_a_body_begins_no_record() -> None:
    inner = encoded(message(body=b"inner"), at=7)
    data = encoded(message(body=inner), at=START) + encoded(message(), at=START + 0)
    assert next_record(data, START, START + 1) is None


def test_what_is_found_behind_a_wrong_length_is_told_but_not_proven() -> None:
    data, places = piece()
    damaged = bytearray(data)
    damaged[places[1] - START + 3] ^= 0x40
    damaged[places[4] - START + 90] ^= 1
    found = scrub(bytes(damaged), START, FILE, whole=True)
    assert [(bad.place.offset, bad.proven) for bad in found.bad] == [
        (places[1], True),
        (places[4], False),
    ] and not found.proven


def test_a_body_that_looks_like_a_record_proves_no_place() -> None:
    """Its outer message is damaged: the search steps into it, and behind it into the middle of a
    body.
    """
    # within the outer one, with its two bytes of topic in front
    inner_at = START + len(encoded(message(body=b"")))
    outer = bytearray(
        encoded(message(body=encoded(message(body=b"inner"), at=inner_at - 2) + b"rest"), at=START)
    )
    outer[3] ^= 0x40
    found = scrub(bytes(outer), START, FILE, whole=True)
    assert [bad.place.offset for bad in found.bad if bad.proven] == [START]


@pytest.mark.parametrize("left", [8, 20, 91, 98, 5000])
def test_however_much_of_a_blank_is_in_the_piece_it_is_one(left: int) -> None:
    blank = encode_blank(left)
    assert scrub(blank, START + FILE - left, FILE, whole=False) == Scrubbed(START + FILE, [])


@given(st.binary(max_size=500), st.booleans())
def test_any_bytes_come_to_an_end_and_none_behind_them_is_proven(data: bytes, lost: bool) -> None:
    found = scrub(data, START, FILE, whole=True, lost=lost)
    assert START <= found.end <= START + len(data)
    assert found.end == START + len(data) or (
        found.lost and not found.proven and START + len(data) - found.end < 91
    )
