"""Where a log ends, row by row of the completeness rule."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.store.log.records import encode_blank
from brokers.store.log.scan import LogWalk, end_of_valid_log, is_record_boundary
from tests.unit.brokers.store.log_samples import GOLDEN, encoded, message, sized

FILE = 1024


def reader(data: bytes, window: int = 1 << 20):
    """Reads as a commit log does: never across a file."""
    return lambda offset, count: data[
        offset : min(offset + min(count, window), offset - offset % FILE + FILE)
    ]


def three_messages(tag: str = "") -> bytes:
    data = b""
    for slot in range(3):
        data += encoded(message(body=b"body %d" % slot, tag=tag), slot, len(data))
    return data


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % FILE)


def test_the_end_of_a_real_log_is_found() -> None:
    data = (GOLDEN / "commitlog_first_8k").read_bytes()
    walk = LogWalk(lambda at, n: data[at : at + n], 0, len(data), 16 << 20, check_body=True)
    records = list(walk)
    assert (walk.end, len(records), records[10].topic) == (7302, 25, "SCHEDULE_TOPIC_XXXX")
    assert records[10].tags_code == 1795226936024


def test_zeros_end_the_scan() -> None:
    data = three_messages()
    assert end_of_valid_log(reader(padded(data)), 0, FILE, FILE) == (
        len(data),
        "magic is not that of a record",
    )


@pytest.mark.parametrize("what", ["magic", "body", "size", "length", "half", "position"])
def test_a_broken_last_message_is_not_counted(what: str) -> None:
    data = three_messages()
    start = len(data) // 3 * 2
    broken = bytearray(data)
    if what == "half":
        broken[start + 50 :] = bytes(len(data) - start - 50)
    else:
        at = {"magic": 4, "body": 88, "size": 2, "length": 87, "position": 35}[what]
        broken[start + at] ^= 0x01
    assert end_of_valid_log(reader(padded(bytes(broken))), 0, FILE, FILE)[0] == start


@given(st.integers(0, 1023), st.sampled_from(["", "T"]))
def test_a_tear_anywhere_ends_the_log_at_a_message_in_front_of_it(tear: int, tag: str) -> None:
    data = three_messages(tag)
    walk = LogWalk(reader(padded(data[:tear])), 0, FILE, FILE, check_body=True, written_end=0)
    assert len(list(walk)) * len(data) // 3 == walk.end
    third = len(data) // 3
    # where no properties follow, the last bytes of a record are zero: a tear in front of them
    # changes nothing
    assert walk.end in (
        min(len(data), tear // third * third),
        *([] if tag else [min(len(data), (tear + 2) // third * third)]),
    )


def test_a_record_whose_text_ends_in_zeros_counts_once_something_stands_behind_it() -> None:
    odd = encoded(replace(message(body=b"odd"), properties=b"a\x01ends in zero\0"))
    then = encoded(message(body=b"then"), 1, len(odd))
    read = reader(padded(odd))
    assert list(LogWalk(read, 0, FILE, FILE, check_body=True, written_end=0)) == []
    assert len(list(LogWalk(read, 0, FILE, FILE, check_body=True, written_end=len(odd)))) == 1
    assert (
        len(
            list(LogWalk(reader(padded(odd + then)), 0, FILE, FILE, check_body=True, written_end=0))
        )
        == 2
    )
    blank = encode_blank(FILE - len(odd))
    walk = LogWalk(reader(padded(odd + blank)), 0, 2 * FILE, FILE, check_body=True, written_end=0)
    assert len(list(walk)) == 1 and walk.end == FILE


@pytest.mark.parametrize("left", [8, 9, 91, 100])
def test_a_blank_record_leads_to_the_next_file(left: int) -> None:
    first = encoded(sized(FILE - left))
    second = encoded(message(), 1, FILE)
    data = padded(first + encode_blank(left)) + second
    walk = LogWalk(reader(padded(data)), 0, 2 * FILE, FILE, check_body=True)
    assert [record.physical_offset for record in walk] == [0, FILE]
    assert walk.end == FILE + len(second)


def test_a_blank_record_of_another_length_ends_the_log() -> None:
    data = padded(three_messages() + encode_blank(50))
    assert end_of_valid_log(reader(data), 0, FILE, FILE)[0] == len(three_messages())


def test_a_record_that_runs_past_its_file_ends_the_log() -> None:
    data = padded(encoded(sized(FILE + 1)))
    assert end_of_valid_log(reader(data), 0, len(data), FILE)[0] == 0


def test_the_limit_ends_the_walk_in_front_of_a_record_that_crosses_it() -> None:
    data = three_messages()
    third = len(data) // 3
    for limit in range(len(data) + 1):
        walk = LogWalk(reader(data), 0, limit, FILE, check_body=False)
        assert len(list(walk)) == limit // third
        assert walk.end == limit // third * third
        assert walk.incomplete is (limit % third != 0)


def test_a_blank_record_beyond_the_limit_is_incomplete() -> None:
    data = padded(encoded(sized(FILE - 100)) + encode_blank(100))
    walk = LogWalk(reader(data), 0, FILE - 1, FILE, check_body=False)
    assert len(list(walk)) == 1
    assert (walk.end, walk.incomplete) == (FILE - 100, True)


def test_a_record_larger_than_the_window_is_read_again_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("brokers.store.log.scan.WINDOW_BYTES", 100)
    data = encoded(sized(400)) + encoded(sized(99), 1, 400) + encoded(sized(300), 2, 499)
    walk = LogWalk(reader(padded(data)), 0, FILE, FILE, check_body=True)
    assert [record.size for record in walk] == [400, 99, 300]


def test_a_reader_that_ends_early_ends_the_walk() -> None:
    data = three_messages()[:-5]
    walk = LogWalk(reader(data), 0, FILE, FILE, check_body=True)
    assert len(list(walk)) == 2
    assert walk.reason == "log ends"


@given(st.binary(max_size=600))
def test_hostile_bytes_end_the_walk(data: bytes) -> None:
    end, _ = end_of_valid_log(reader(data), 0, 2 * FILE, FILE)
    assert end <= 2 * FILE


def test_boundaries_are_where_records_start() -> None:
    data = three_messages()
    third = len(data) // 3
    log = padded(data + encode_blank(FILE - len(data)))
    allowed = [at for at in range(FILE + 3) if is_record_boundary(reader(log), at, FILE, FILE)]
    assert allowed == [0, third, 2 * third, 3 * third, FILE, FILE + 1, FILE + 2]


def test_a_broken_message_is_no_boundary() -> None:
    data = bytearray(three_messages())
    data[88] ^= 1
    assert not is_record_boundary(reader(bytes(data)), 0, len(data), FILE)


@pytest.mark.parametrize("lost", range(0, 3584, 512))
def test_a_record_of_which_any_sector_was_lost_does_not_count_where_power_was(lost: int) -> None:
    """Body, topic and properties reach over borders of sectors; nothing but the body has a
    checksum.
    """
    properties = b"a\x01" + b"x" * 1500 + b"\x02b\x01" + b"y" * 1000
    record = encoded(replace(message(topic="T" * 100, body=b"b" * 900), properties=properties))
    data = bytearray((record + encoded(message(), 1, len(record))).ljust(8192, b"\0"))
    assert len(record) > 3584 - 512

    def found() -> int:
        return len(
            list(
                LogWalk(
                    lambda at, count: bytes(data[at : at + count]),
                    0,
                    8192,
                    8192,
                    check_body=True,
                    torn_from=0,
                )
            )
        )

    assert found() == 2
    data[lost : lost + 512] = bytes(512)
    assert found() == 0


@pytest.mark.parametrize("flushed_to", range(600, 3584, 250))
def test_nor_does_one_of_which_the_rest_of_a_sector_was_lost(flushed_to: int) -> None:
    """Its first bytes were flushed; the rest of that sector, and no other, never came to the
    disk.
    """
    properties = b"a\x01" + b"x" * 1500 + b"\x02b\x01" + b"y" * 1400
    record = encoded(replace(message(topic="T" * 100, body=b"b" * 400), properties=properties))
    data = bytearray((record + encoded(message(), 1, len(record))).ljust(8192, b"\0"))
    border = -(-flushed_to // 512) * 512
    data[flushed_to:border] = bytes(border - flushed_to)
    found = list(
        LogWalk(
            lambda at, count: bytes(data[at : at + count]),
            0,
            8192,
            8192,
            check_body=True,
            torn_from=0,
        )
    )
    assert found == [] or flushed_to == border


def test_zeros_within_properties_are_no_sign_of_a_loss_where_everything_was_flushed() -> None:
    odd = encoded(replace(message(), properties=b"a\x01" + bytes(1200) + b"b"))
    data = (odd + encoded(message(), 1, len(odd))).ljust(8192, b"\0")
    assert (
        len(
            list(
                LogWalk(
                    lambda at, count: data[at : at + count],
                    0,
                    8192,
                    8192,
                    check_body=True,
                    torn_from=len(odd),
                )
            )
        )
        == 2
    )


@pytest.mark.parametrize("sector", range(0, 320, 64))
def test_what_cannot_be_read_ends_the_walk_in_front_of_its_record(sector: int) -> None:
    data, asked = three_messages("tag"), []

    def read(offset: int, count: int) -> bytes:
        asked.append(count)
        if offset < sector + 64 and offset + count > sector:
            raise OSError(errno.EIO, "Input/output error")
        return padded(data)[offset : offset + count]

    walk = LogWalk(read, 0, FILE, FILE, check_body=True)
    third = len(data) // 3
    assert len(list(walk)) == sector // third
    assert walk.reason == "it cannot be read: Input/output error" and len(asked) < 12


def test_a_want_of_descriptors_is_no_damage() -> None:
    def read(offset: int, count: int) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many"):
        list(LogWalk(read, 0, FILE, FILE, check_body=True))
