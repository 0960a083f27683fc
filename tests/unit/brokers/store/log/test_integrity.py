"""What is known of a stored message without another copy of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.integrity import Place, QueueCheck, problem
from brokers.store.log.records import MessageFields, encode_message, host_bytes, message_size
from tests.unit.brokers.store.log_samples import NOW_MS, encoded, message

V4, V6 = host_bytes("10.0.0.1", 1), host_bytes("::1", 1)
SLOT, OFFSET = 7, 4711


def stored(
    topic: str = "T",
    body: bytes = b"body",
    born: bytes = V4,
    host: bytes = V4,
    properties: bytes = b"TAGS\x01a\x02",
) -> bytes:
    fields = MessageFields(topic, 3, body, properties, NOW_MS, born, host)
    return encode_message(fields, message_size(fields), SLOT, OFFSET, NOW_MS)


def judged(
    data: bytes,
    topic: str = "T",
    queue_id: int = 3,
    slot: int = SLOT,
    offset: int = OFFSET,
    size: int | None = None,
) -> str:
    """What the check of a queue says; the one without a queue's help has to agree but for the
    queue.
    """
    size = len(data) if size is None else size
    check = QueueCheck(topic, queue_id)
    found = check.problem(memoryview(b"--" + data), 2, slot, offset, size)
    assert found == problem(memoryview(data), check.place(slot, offset, size))
    alone = problem(memoryview(data), Place(offset, size))
    assert alone == found or (not alone and "queue" in found)
    return found


@pytest.mark.parametrize("topic", ["T", "t" * 127, "t" * 128, "t" * 300])
@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("host", [V4, V6])
@pytest.mark.parametrize("body", [b"", b"x", b"y" * 70_000])
def test_sound_messages_of_every_shape_pass(
    topic: str, born: bytes, host: bytes, body: bytes
) -> None:
    assert judged(stored(topic, body, born, host), topic) == ""


@pytest.mark.parametrize(
    ("where", "at"),
    [
        ("size", 0),
        ("magic", 4),
        ("magic", 7),
        ("checksum", 8),
        ("queue", 15),
        ("queue offset", 27),
        ("position", 35),
        ("IPv6 flag", 39),
        ("body length", 87),
        ("body", 88),
        ("body", 91),
        ("topic length", 92),
        ("topic", 93),
        ("property length", 95),
    ],
)
def test_a_flipped_bit_is_found_wherever_the_format_can_show_it(where: str, at: int) -> None:
    data = bytearray(stored())
    data[at] ^= 0x10
    assert judged(bytes(data)), where


@given(st.data())
def test_no_damage_raises_and_none_of_the_body_passes(data: st.DataObject) -> None:
    sound = stored(body=b"0123456789" * 5)
    at = data.draw(st.integers(0, len(sound) - 1))
    damaged = bytearray(sound)
    damaged[at] ^= data.draw(st.integers(1, 255))
    found = judged(bytes(damaged))
    assert found or not 88 <= at < 138


@given(st.binary(max_size=300), st.integers(-5, 400))
def test_any_bytes_are_judged_without_an_error(data: bytes, size: int) -> None:
    assert judged(data, size=size)


def test_bytes_that_are_cut_short_do_not_pass() -> None:
    data = stored()
    assert all(judged(data[:count], size=len(data)) for count in range(len(data)))


def test_a_message_of_another_queue_or_place_does_not_pass() -> None:
    data = stored()
    assert (
        judged(data, topic="U")
        and judged(data, queue_id=4)
        and judged(data, slot=8)
        and judged(data, offset=1)
    )


def test_light_queues_point_to_messages_of_other_topics() -> None:
    data = stored()
    check = QueueCheck("%LMQ%x", 0)
    assert check.problem(memoryview(data), 0, 0, OFFSET, len(data)) == ""


def test_an_empty_body_has_no_checksum_to_fail() -> None:
    data = bytearray(stored(body=b""))
    data[11] ^= 1
    assert judged(bytes(data)) == ""


def test_the_check_and_the_recovery_agree_on_real_shapes() -> None:
    data = encoded(message(body=b"z" * 100, tag="a"), slot=2, at=900)
    assert QueueCheck("T", 0).problem(memoryview(data), 0, 2, 900, len(data)) == ""


@given(st.data())
def test_a_row_of_messages_is_sound_exactly_as_far_as_each_of_them_is(data: st.DataObject) -> None:
    """`sound_until` may only be more careful than `problem`, and for plain messages it is not."""
    check, raw, chosen = QueueCheck("T", 3), bytearray(), []
    for number in range(4):
        fields = message("T", 3, body=b"b" * (10 + number))
        size = message_size(fields)
        chosen.append((7 + number, (1000 + len(raw), size, 0)))
        raw += encode_message(fields, size, 7 + number, 1000 + len(raw), NOW_MS)
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(raw[: data.draw(st.integers(len(raw) - 40, len(raw)))])
    sound, row = check.sound_until(memoryview(cut), 1000, chosen, 0, 4)
    reasons = [
        check.problem(memoryview(cut), offset - 1000, slot, offset, size)
        for slot, (offset, size, _) in chosen
    ]
    first_bad = next((number for number, reason in enumerate(reasons) if reason), 4)
    assert sound <= first_bad and (
        sound == first_bad or raw[chosen[sound][1][0] - 1000 + 39] & 0x30
    )
    assert row == (sound == 4 and len(cut) == len(raw))
