"""Where a log goes on behind damage, and where it ends."""

import errno
from collections.abc import Callable

import pytest

from brokers.store.log.records import encode_blank
from brokers.store.recovery.damage import Passed, Written, behind_damage
from tests.unit.brokers.store.log_samples import encoded, message, sized

FILE = 4096
SIZE = 200


def two_files() -> bytearray:
    """Records of SIZE bytes; the first file ends with a blank record."""
    data = bytearray()
    while len(data) + SIZE + 8 <= FILE:
        data += encoded(sized(SIZE), len(data) // SIZE, len(data))
    data += encode_blank(FILE - len(data))
    data = data.ljust(FILE, b"\0")
    for _ in range(5):
        data += encoded(sized(SIZE), 30, len(data))
    return data


LAST = FILE + 5 * SIZE


def reader(data: bytes) -> Callable[[int, int], bytes]:
    padded = data.ljust(2 * FILE, b"\0")
    return lambda offset, count: bytes(
        padded[offset : min(offset + count, offset - offset % FILE + FILE)]
    )


def behind(data: bytes, at: int, flushed: int = LAST, written: int = LAST) -> Passed | None:
    return behind_damage(reader(data), at, 2 * FILE, FILE, Written(flushed, written))


@pytest.mark.parametrize(("flipped", "size"), [(88, SIZE), (5, SIZE), (30, SIZE), (1, 0), (3, 0)])
def test_the_next_record_is_found_by_the_length_of_the_damaged_one_or_by_searching(
    flipped: int, size: int
) -> None:
    data = two_files()
    data[3 * SIZE + flipped] ^= 0x11
    assert behind(data, 3 * SIZE) == Passed(size, 4 * SIZE)


def test_nothing_is_damaged_where_nothing_was_written() -> None:
    assert behind(two_files(), LAST) is None
    assert behind(two_files(), LAST, flushed=LAST, written=LAST + 50) is None
    data = two_files()
    data[3 * SIZE + 88] ^= 1
    assert behind(data, 3 * SIZE, 3 * SIZE, 3 * SIZE) is None


def test_the_last_record_that_was_flushed_is_passed_by_its_length() -> None:
    data = two_files()
    data[LAST - SIZE + 88] ^= 1
    assert behind(data, LAST - SIZE) == Passed(SIZE, LAST)
    assert behind(data, LAST - SIZE, flushed=LAST - SIZE) is None


def test_a_log_that_became_short_ends() -> None:
    data = two_files()
    data[FILE + SIZE :] = b""
    assert behind(data, FILE + SIZE) is None


def test_damage_up_to_the_end_of_a_file_leads_to_the_next_one() -> None:
    data = two_files()
    data[18 * SIZE : FILE] = bytes(FILE - 18 * SIZE)
    assert behind(data, 18 * SIZE) == Passed(0, FILE)


def test_what_looks_like_a_record_within_a_body_is_not_believed() -> None:
    data = two_files()
    inside = encoded(message(), 7, SIZE + 100)
    outer = encoded(message(body=bytes(100 - 88) + inside + bytes(200)), 1, SIZE)
    following = encoded(sized(SIZE), 2, SIZE + len(outer))
    data = data[:SIZE] + outer + following
    data[SIZE + 1] ^= 1  # the length of the outer one
    assert data[SIZE + 100 : SIZE + 100 + len(inside)] == inside
    end = len(data)
    assert behind_damage(reader(data), SIZE, FILE, FILE, Written(end, end)) == Passed(
        0, SIZE + len(outer)
    )


def test_a_sector_that_cannot_be_read_is_passed_over() -> None:
    data = two_files()
    read = reader(data)

    def refusing(offset: int, count: int) -> bytes:
        if offset < 700 and offset + count > 650:
            raise OSError(errno.EIO, "Input/output error")
        return read(offset, count)

    passed = behind_damage(refusing, 3 * SIZE, 2 * FILE, FILE, Written(LAST, LAST))
    # what a disk loses at once is larger than such a file
    assert passed is not None and passed.following == FILE
