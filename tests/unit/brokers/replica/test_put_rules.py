"""Labels, admission, and when a busy broker sheds load. The table of outcomes:
tests/conformance/test_6_acknowledgement.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.replica.put_rules import STORED, AckMode, BusyGate, PutStatus, admit, code_of, combine
from brokers.replica.waiters import Confirmation
from brokers.store.log.group_commit import Flushed


@pytest.mark.parametrize(
    ("mode", "label", "warnings"),
    [
        (AckMode(), "all-ack", 0),
        (AckMode(in_sync=1), "all-ack", 0),
        (AckMode(all_ack=False), "count 2 (may lose)", 1),
        (AckMode(all_ack=False, in_sync=1), "asynchronous (may lose)", 1),
        (AckMode(auto=True), "all-ack", 1),
        (AckMode(all_ack=False, auto=True), "count 2 (may lose)", 2),
    ],
)
def test_only_all_ack_goes_without_a_warning(mode: AckMode, label: str, warnings: int) -> None:
    assert mode.label == label and len(mode.warnings()) == warnings
    assert ("may lose" in mode.label) is not mode.all_ack


def test_the_set_and_those_who_can_answer_must_be_enough() -> None:
    mode = AckMode(min_in_sync=2)
    assert mode.refusal(2, 2) is None
    assert mode.refusal(1, 1) == "in-sync replicas not enough: 1 of 2"
    assert mode.refusal(3, 1) == "in-sync replicas not enough: 1 of 2 reachable"


def test_auto_degrade_admits_nobody_more() -> None:
    for all_ack in (True, False):
        assert (
            AckMode(all_ack, 3, 2, True).refusal(1, 1)
            == AckMode(all_ack, 3, 2, False).refusal(1, 1)
            is not None
        )


def test_who_does_not_wait_is_kept_out_by_other_reasons_only() -> None:
    scarce = "in-sync replicas not enough: 1 of 2"
    assert admit(None, waits=True) is admit(None, waits=False) is admit(scarce, waits=False) is None
    assert admit(scarce, waits=True) == (1, "in-sync replicas not enough")
    assert admit("stopped", waits=True) == admit("stopped", waits=False) == (14, "stopped")


def test_success_needs_replicas_and_disk() -> None:
    good = [
        (one, two)
        for one in Confirmation
        for two in Flushed
        if combine(one, two) is PutStatus.PUT_OK
    ]
    assert good == [(Confirmation.CONFIRMED, Flushed.DURABLE)]


def test_a_stored_message_is_answered_without_words_whatever_is_said_of_it() -> None:
    for status in PutStatus:
        _, remark = code_of(status, "more about it")
        assert remark == (None if status in STORED else "more about it")


def test_who_waited_too_long_behind_others_who_did_is_not_written() -> None:
    gate = BusyGate(queue_wait_ms=200)
    assert gate.refusal(1_000, 1_200) is None and gate.refusal(1_200, 1_401) is None
    for _ in range(2):
        code, remark = gate.refusal(1_401, 1_602) or (0, None)
        assert code == 2 and remark is not None and "period in queue: 201ms" in remark


def test_a_process_that_stands_still_for_a_moment_refuses_nobody_for_it() -> None:
    gate = BusyGate(queue_wait_ms=200)
    for at_ms in range(0, 10_000, 1_000):
        assert gate.refusal(at_ms, at_ms + 900) is None
        assert gate.refusal(at_ms + 900, at_ms + 950) is None


def test_who_came_behind_an_append_that_hung_is_sent_away_once() -> None:
    gate = BusyGate(page_cache_busy_ms=1_000)
    gate.appended(0, 1_000)
    assert gate.refusal(1_001, 1_001) is None
    gate.appended(2_000, 3_001)
    assert gate.refusal(3_002, 3_002) == (
        2,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    )
    assert gate.refusal(3_003, 3_003) is None


def test_who_comes_later_than_a_hung_append_is_written() -> None:
    gate = BusyGate(page_cache_busy_ms=1_000)
    gate.appended(0, 5_000)
    assert gate.refusal(5_100, 5_100) is None
    gate.appended(6_000, 8_000)
    gate.appended(8_000, 8_001)
    assert gate.refusal(8_002, 8_002) is None


sizes = st.integers(0, 100)


@given(
    st.builds(AckMode, st.booleans(), st.integers(1, 100), st.integers(1, 100), st.booleans()),
    sizes,
    sizes,
)
def test_no_setting_but_the_minimum_decides_who_is_admitted(
    mode: AckMode, confirmed: int, reachable: int
) -> None:
    reason = mode.refusal(confirmed, reachable)
    assert (reason is None) == (min(confirmed, reachable) >= mode.min_in_sync)
    assert (admit(reason, waits=True) is None) == (reason is None) and admit(
        reason, waits=False
    ) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 1_000), st.integers(0, 500), st.integers(0, 200)), max_size=30
    )
)
def test_while_appends_are_fast_and_the_queue_is_short_nobody_is_sent_away(
    turns: list[tuple[int, int, int]],
) -> None:
    gate, now_ms = BusyGate(), 0
    for append_ms, pause_ms, waited_ms in turns:
        gate.appended(now_ms, now_ms + append_ms)
        taken_ms = now_ms + append_ms + pause_ms
        now_ms = taken_ms + waited_ms
        assert gate.refusal(taken_ms, now_ms) is None
