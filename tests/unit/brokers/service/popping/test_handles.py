"""Info strings and handles as measured on RocketMQ 5.3.3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.service.popping.handles import (
    BadHandle,
    Handle,
    Popped,
    message_offset_info,
    order_count_info,
    parse_handle,
    start_offset_info,
)

MEASURED = "0 1795413796389 60000 2 1 b1 0 0"


def test_a_handle_reads_as_it_was_written() -> None:
    handle = parse_handle(MEASURED)
    assert handle == Handle(0, 1795413796389, 60000, 2, "1", "b1", 0, 0)
    assert handle.text() == MEASURED and handle.visible_ms == 1795413856389


@pytest.mark.parametrize("more", [" 4711", " 4711 x", " "], ids=["62-ninth", "62-more", "62-blank"])
def test_what_proxies_add_to_a_handle_is_passed_over(more: str) -> None:
    assert parse_handle(MEASURED + more) == parse_handle(MEASURED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 1 2 3 1",
        "x 1 2 3 1 b",
        "0 1 2 3 3 b",
        "-1 1 2 3 1 b",
        "0 -1 2 3 1 b",
        f"0 {1 << 60} 2 3 1 b",
        f"0 1 2 {1 << 33} 1 b",
        "0 1 2 3 1 b x",
        "0 1 2 3 1 " + "b" * 256,
        "0 1 2 3 1 b" + " 9" * 600,
    ],
)
def test_62_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(BadHandle):
        parse_handle(text)


@given(
    st.text(max_size=60) | st.lists(st.integers(), max_size=9).map(lambda n: " ".join(map(str, n)))
)
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    try:
        assert parse_handle(text).kind in ("0", "1", "2")
    except BadHandle:
        pass


def test_58_an_answer_names_each_message_once() -> None:
    taken = [Popped("0", 1, 0, (0,)), Popped("0", 0, 2, (2, 3, 4))]
    assert start_offset_info(taken) == "0 1 0;0 0 2"
    assert message_offset_info(taken) == "0 1 0;0 0 2,3,4"
    assert start_offset_info([]) == message_offset_info([]) == ""


def test_74_counts_stand_per_message_and_the_least_of_them_per_queue() -> None:
    assert order_count_info([Popped("0", 0, 2, (2, 3, 4), {2: 1})]) == "0 qo0%2 1;0 0 0"
    assert order_count_info([Popped("0", 3, 2, (2, 3), {2: 2, 3: 1})]) == (
        "0 qo3%2 2;0 qo3%3 1;0 3 1"
    )
