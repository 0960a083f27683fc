"""The form in which a transactional message waits."""

import pytest

from brokers.service.sending.half import as_half
from brokers.store.log.properties import PROPERTIES_BYTES_MAX, decode_properties
from brokers.store.log.records import MessageFields, host_bytes

HOST = host_bytes("127.0.0.1", 10911)
SENT = MessageFields(
    "T", 3, b"body", b"TRAN_MSG\x01true\x02UNIQ_KEY\x01K\x02", 7, HOST, HOST, sys_flag=4 | 1
)


def test_40_a_half_hides_where_it_goes() -> None:
    half = as_half(SENT, "K")
    assert (half.topic, half.queue_id, half.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)
    found = decode_properties(half.properties)
    assert (found["REAL_TOPIC"], found["REAL_QID"], found["__transactionId__"]) == ("T", "3", "K")
    assert (half.body, half.born_ms, found["TRAN_MSG"]) == (b"body", 7, "true")


def test_properties_without_room_for_the_destination_are_refused() -> None:
    long = b"A\x01" + b"x" * (PROPERTIES_BYTES_MAX - 10) + b"\x02"
    with pytest.raises(ValueError, match="larger"):
        as_half(MessageFields("T", 0, b"x", long, 1, HOST, HOST), None)
