"""The bytes of halves, of what is committed, of op records."""

import pytest

from brokers.service.sending.half import as_half
from brokers.service.transactions.forms import (
    OP_CHARACTERS_MAX,
    again,
    committed,
    decided_in,
    op_records,
    question,
    times_asked,
)
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import (
    SYS_FLAG_COMMIT,
    MessageFields,
    StoredMessage,
    decode_message,
    host_bytes,
)

HOST = host_bytes("127.0.0.1", 10911)
SENT = MessageFields(
    "T",
    3,
    b"body",
    b"TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K\x02TAGS\x01t\x02",
    7,
    HOST,
    HOST,
    flag=5,
    sys_flag=4 | 1,
    reconsume_times=2,
)


def test_40_a_commit_brings_a_half_where_it_goes() -> None:
    half = as_half(SENT, "K")
    final = committed(half, 4711)
    assert (final.topic, final.queue_id, final.sys_flag) == ("T", 3, 1 | SYS_FLAG_COMMIT)
    assert final.prepared_transaction_offset == 4711
    assert (final.body, final.flag, final.born_ms, final.reconsume_times) == (b"body", 5, 7, 2)
    assert final.properties == half.properties


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (b"", "queue"),
        (b"REAL_QID\x011\x02", "topic"),
        (b"REAL_TOPIC\x01T\x02REAL_QID\x01-1\x02", "queue"),
        (b"REAL_TOPIC\x01T\x02REAL_QID\x011234567890\x02", "queue"),
        (b"REAL_TOPIC\x01a b\x02REAL_QID\x011\x02", "topic"),
        (b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02", "nothing is committed"),
        (b"REAL_TOPIC\x01RMQ_SYS_TRANS_OP_HALF_TOPIC\x02REAL_QID\x010\x02", "nothing is"),
    ],
)
def test_a_half_that_does_not_say_where_it_goes_is_refused(properties: bytes, why: str) -> None:
    half = MessageFields("RMQ_SYS_TRANS_HALF_TOPIC", 0, b"x", properties, 1, HOST, HOST)
    with pytest.raises(ValueError, match=why):
        committed(half, 0)


def test_52_op_records_hold_decimals_with_commas_up_to_their_size() -> None:
    (only,) = op_records([0, 0, 1], HOST, 9)
    assert bytes(only.body) == b"0,0,1,"
    assert decode_properties(only.properties) == {"WAIT": "true", "TAGS": "d"}
    many = op_records(range(10**12, 10**12 + 1000), HOST, 9)
    assert len(many) > 1 and all(len(one.body) <= OP_CHARACTERS_MAX for one in many)
    assert [each for one in many for each in decided_in(one)] == [*range(10**12, 10**12 + 1000)]
    assert op_records([], HOST, 9) == []


@pytest.mark.parametrize(
    ("body", "tag", "names"),
    [
        (b"1,2,", b"d", [1, 2]),
        (b"1", b"d", [1]),
        (b"", b"d", []),
        (b"x,-1,2,,99999999999999999999999,3", b"d", [2, 3]),
        (b"\xff\xfe,4", b"d", [4]),
        (b"1,", b"x", []),
    ],
)
def test_what_an_op_record_names(body: bytes, tag: bytes, names: list[int]) -> None:
    record = MessageFields("O", 0, body, b"TAGS\x01" + tag + b"\x02", 1, HOST, HOST)
    assert list(decided_in(record)) == names


def test_47_a_question_shows_the_message_of_its_producer_at_the_place_of_the_copy() -> None:
    half = StoredMessage(as_half(SENT, "K"), 200, 1, 0, 3, 900, 55)
    assert times_asked(again(half.fields, 1)) == 1
    asked = decode_message(question(half, 12, 3456))
    assert (asked.fields.topic, asked.fields.queue_id) == ("T", 3)
    assert (asked.queue_offset, asked.physical_offset, asked.store_ms) == (12, 3456, 55)
    found = decode_properties(asked.fields.properties)
    assert (found["TRANSACTION_CHECK_TIMES"], found["WAIT"]) == ("1", "false")
