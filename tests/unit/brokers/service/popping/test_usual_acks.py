"""The short way of an acknowledgement: whatever it takes, the long way would have taken just so."""

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from brokers.service.popping.ack_requests import parse_ack
from brokers.service.popping.handles import Handle, parse_handle
from brokers.service.popping.records import Ack, RecordMaker, key_of
from brokers.service.popping.usual_acks import done_frame, form_of, general_frame, usual_ack
from brokers.service.sending.timed import TIMER_TOPIC, Timed, TimerRules
from brokers.store.log.records import host_bytes
from infra.features.pop_requests import ack_request
from tests.support.examples import examples

NOW_MS = 1_700_000_000_000
USUAL = ack_request(Handle(5, NOW_MS, 60_000, 3, "0", "b", 2, 7)).ext
NUMBERS = st.sampled_from(
    ["0", "7", "07", "-1", "", " 1", "1_0", "+2", "٣", "²", "x", "9" * 18, "9" * 19]
)
FIELDS = {
    "consumerGroup": st.none() | st.sampled_from(["", "g", "%g|-_"]),
    "topic": st.none() | st.sampled_from(["", "T", "%RETRY%g_T", "%RETRY%g+T"]),
    "queueId": st.none() | NUMBERS,
    "offset": st.none() | NUMBERS,
    "extraInfo": st.none()
    | st.sampled_from(
        [
            "",
            "7",
            "5 1 60000 3 0 b",
            f"5 {NOW_MS} 60000 3 0 b 2 7 4711",
            f"5 {NOW_MS} 60000 3 1 ä 2 7",
            f"+5 {NOW_MS} 060000 3 2 b%d 9 7",
            f"5 {NOW_MS} 60000 3 0 a@b\"'\\ 2 07",
        ]
    ),
    "regentForwardedFor": st.just("10.0.0.1:5"),
}
CHANGES = st.lists(
    st.one_of([st.tuples(st.just(key), values) for key, values in FIELDS.items()]), max_size=3
).map(dict)
MAKER = RecordMaker("rmq_sys_REVIVE_LOG_c", host_bytes("127.0.0.1", 10911))
TIMED = Timed(TimerRules(), lambda: NOW_MS, lambda _slot: 0, lambda: 0.0)


def test_what_a_java_consumer_sends_is_usual() -> None:
    assert usual_ack(USUAL) == ((f"5 {NOW_MS} 60000 3 0 b 2 ", "T", "g", "2"), 7)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.filter_too_much])
@given(CHANGES)
@example({"offset": "0" * 5})
@example({"queueId": "0002"})
@example({"extraInfo": f"5 {NOW_MS} 60000 3 1 b_@0@_ 2 7", "topic": "%RETRY%g_T"})
def test_whatever_is_usual_is_the_same_record_the_long_way(changes: dict[str, str | None]) -> None:
    ext = {key: value for key, value in (USUAL | changes).items() if value is not None}
    usual = usual_ack(ext)
    assume(usual is not None and usual[0].handle.count(" ") == 7)
    assert usual is not None
    ask, handle = parse_ack(ext), parse_handle(ext["extraInfo"])
    key = key_of(handle, ask.topic, ask.group, ask.queue_id)
    made = [
        TIMED.at(
            MAKER.ack(Ack(key, (offset,)), handle.visible_ms, handle.revive_queue, NOW_MS),
            handle.visible_ms,
        )
        for offset in (0, ask.offset)
    ]
    form = form_of(key, handle.revive_queue, handle.visible_ms, made[0])
    assert form is not None and usual[1] == ask.offset
    assert form.record(usual[1], NOW_MS) == made[1] and made[1].topic == TIMER_TOPIC
    known = of_front(usual[0].handle)
    assert (known.visible_ms, known.revive_queue) == (form.visible_ms, form.revive_queue)
    assert key_of(known, usual[0].topic, usual[0].group, int(usual[0].queue)) == key


def of_front(text: str) -> Handle:
    return parse_handle(f"{text}0")


def test_a_record_without_a_place_for_the_offset_has_no_form() -> None:
    key = key_of(parse_handle(USUAL["extraInfo"]), "T", "g", 2)
    other = MAKER.ack(Ack(key, (1,)), NOW_MS + 1, 3, NOW_MS)
    assert form_of(key, 3, NOW_MS + 1, other) is None


@given(st.integers(-(2**31), 2**31 - 1))
@example(77777)
def test_the_short_answer_is_that_of_the_general_encoder(opaque: int) -> None:
    assert done_frame(opaque) == general_frame(opaque)
