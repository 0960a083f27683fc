"""Parts of records that were checked are those of the decoded ones."""

import pytest

from brokers.store.log.checked_records import (
    HEAD_BYTES,
    body_and_properties,
    has_head,
    property_text,
    queue_offsets,
    size_and_places,
)
from brokers.store.log.records import (
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_STORE_HOST_V6,
    MessageFields,
    encode_message,
    host_bytes,
    message_size,
)

HOST, HOST_V6 = host_bytes("127.0.0.1", 10911), host_bytes("::1", 10911)


@pytest.mark.parametrize("topic", ["T", "t" * 127, "t" * 128])
@pytest.mark.parametrize("v6", [0, SYS_FLAG_BORN_HOST_V6, SYS_FLAG_STORE_HOST_V6])
def test_the_parts_of_a_record_are_found(topic: str, v6: int) -> None:
    fields = MessageFields(
        topic,
        0,
        b"body",
        b"a\x01b\x02",
        1,
        HOST_V6 if v6 == SYS_FLAG_BORN_HOST_V6 else HOST,
        HOST_V6 if v6 == SYS_FLAG_STORE_HOST_V6 else HOST,
        sys_flag=v6,
    )
    record = encode_message(fields, message_size(fields), 7, 1 << 40, 1)
    data, end = b"before" + record + b"behind", 6 + len(record)
    assert size_and_places(data, 6) == (len(record), 7, 1 << 40)
    assert property_text(data, 6, end) == b"a\x01b\x02"
    assert body_and_properties(data, 6, end) == (b"body", b"a\x01b\x02")


def test_the_queue_offsets_of_messages_behind_one_another_are_found() -> None:
    fields = MessageFields("T", 0, b"", b"", 1, HOST, HOST)
    data = b"".join(encode_message(fields, message_size(fields), slot, 0, 1) for slot in (4, 5, 9))
    assert queue_offsets(data) == (4, 5, 9) and queue_offsets(b"") == ()


def test_a_head_of_a_record_says_its_own_place() -> None:
    fields = MessageFields("T", 0, b"b" * 90, b"", 1, HOST, HOST)
    record = encode_message(fields, message_size(fields), 7, 5_000, 1)
    data = b"before" + record
    assert has_head(data, 5_000 - 6)
    assert not has_head(data, 5_000), "the same bytes at another place are a body's"
    assert not has_head(data[7:], 5_001 - 6), "without its first byte"
    assert has_head(record[:HEAD_BYTES], 5_000) and not has_head(record[: HEAD_BYTES - 1], 5_000)
    assert not has_head(b"\xda\xa3\x20\xa7", 0) and not has_head(b"", 0)
