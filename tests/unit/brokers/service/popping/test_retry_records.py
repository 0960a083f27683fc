"""Copies for another try."""

import pytest

from brokers.service.popping.handles import Handle
from brokers.service.popping.retry_records import another_try, as_popped
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import (
    SYS_FLAG_COMPRESSED,
    MessageFields,
    StoredMessage,
    body_checksum,
    decode_message,
    encode_message,
    host_bytes,
    message_size,
)

FAR, OWN = host_bytes("10.0.0.1", 99), host_bytes("127.0.0.1", 10911)


def stored(properties: dict[str, str], times: int = 0) -> StoredMessage:
    fields = MessageFields(
        "T",
        3,
        b"packed",
        encode_properties(properties),
        77,
        FAR,
        FAR,
        5,
        SYS_FLAG_COMPRESSED,
        times,
    )
    data = encode_message(fields, message_size(fields), 40, 5_000, 88)
    return decode_message(data)


@pytest.mark.parametrize(
    ("times", "known", "expected"),
    [(0, None, "123"), (0, "9", "123"), (2, "9", "9"), (2, None, "123")],
)
def test_59_a_copy_keeps_all_but_its_place(times: int, known: str | None, expected: str) -> None:
    properties = {"TAGS": "a", **({"1ST_POP_TIME": known} if known else {})}
    copy = another_try(stored(properties, times), "%RETRY%g_T", 123, OWN)
    assert (copy.topic, copy.queue_id, copy.reconsume_times) == ("%RETRY%g_T", 0, times + 1)
    assert (copy.body, copy.flag, copy.sys_flag, copy.born_ms) == (
        b"packed",
        5,
        SYS_FLAG_COMPRESSED,
        77,
    )
    assert copy.born_host == copy.store_host == OWN
    assert decode_properties(copy.properties) == {"TAGS": "a", "1ST_POP_TIME": expected}


def test_a_copy_without_room_for_its_time_or_its_handle_comes_without() -> None:
    full = stored({"K": "v" * 32_760})
    copy = another_try(full, "%RETRY%g_T", 123, OWN)
    assert (copy.properties, copy.reconsume_times) == (full.fields.properties, 1)
    again = decode_message(encode_message(copy, message_size(copy), 40, 5_000, 88))
    handle = Handle(0, 1795413796389, 60_000, 2, "1", "b1", 0, 0)
    got = decode_message(as_popped(again, "P1", handle))
    assert (got.fields.topic, got.fields.properties) == ("P1", full.fields.properties)


def test_a_copy_keeps_a_value_that_holds_what_ends_names() -> None:
    copy = another_try(stored({"K": "a\x01b"}), "%RETRY%g_T", 123, OWN)
    assert decode_properties(copy.properties) == {"K": "a\x01b", "1ST_POP_TIME": "123"}


@pytest.mark.parametrize("known", [None, "old handle"])
def test_59_a_client_gets_a_copy_as_of_the_topic_it_asked_for(known: str | None) -> None:
    record = stored({"TAGS": "a", **({"POP_CK": known} if known else {})}, 1)
    handle = Handle(0, 1795413796389, 60_000, 2, "1", "b1", 0, 0)
    got = decode_message(as_popped(record, "P1", handle))
    assert got.fields.topic == "P1" and got.version == 1
    assert decode_properties(got.fields.properties)["POP_CK"] == (known or handle.text())
    assert (got.queue_offset, got.physical_offset, got.store_ms) == (40, 5_000, 88)
    assert got.body_crc == body_checksum(b"packed") and got.fields.reconsume_times == 1
