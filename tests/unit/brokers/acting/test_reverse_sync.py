"""The bodies of 43, 45 and 60, within limits; who is named in a set; what is served."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.acting.group_view import GroupView
from brokers.acting.ha_links import match
from brokers.acting.lock_quorum import others_of
from brokers.acting.messages import CouldNotAnswer, Members
from brokers.acting.outcomes import is_done, put_of
from brokers.acting.reverse_sync import (
    Places,
    TimerCheckPoint,
    read_delays,
    read_offsets,
    read_timers,
    timers_body,
)
from brokers.acting.served import AT_A_SLAVE, FENCED, How
from brokers.service.tables.data_version import DataVersion

VERSION = DataVersion(0, 99, 7)
SAID = b'"dataVersion":{"counter":7,"stateVersion":0,"timestamp":99}'


def test_offsets_are_read_with_unquoted_queues() -> None:
    body = b"{" + SAID + b',"offsetTable":{"T@g":{0:5,"1":6}},"more":1}'
    assert read_offsets(body) == Places(VERSION, {("T@g", 0): 5, ("T@g", 1): 6})


def test_delays_are_read_with_unquoted_levels() -> None:
    assert read_delays(b"{" + SAID + b',"offsetTable":{1:10,2:0}}') == Places(
        VERSION, {("", 1): 10, ("", 2): 0}
    )


def test_check_points_have_56_bytes_or_32() -> None:
    body = struct.pack(">7q", 1, 2, 3, 4, 0, 99, 7)
    one = TimerCheckPoint(1, 2, 3, 4, VERSION)
    assert read_timers(body) == one and timers_body(one) == body
    assert read_timers(body[:32]) == TimerCheckPoint(1, 2, 3, 4, None)
    with pytest.raises(ValueError):
        read_timers(body[:40])


@pytest.mark.parametrize(
    "table", [b"[]", b'{"x":{}}', b'{"T@g":{"0":-1}}', b'{"T@g":{"x":1}}', b'{"T@g":{"0":"1"}}']
)
def test_tables_of_something_else_are_refused(table: bytes) -> None:
    with pytest.raises(ValueError):
        read_offsets(b'{"offsetTable":' + table + b"}")


@given(st.binary(max_size=200))
def test_nonsense_ends_in_one_error(body: bytes) -> None:
    for read in (read_offsets, read_delays, read_timers):
        try:
            read(body)
        except ValueError:
            pass


def test_a_member_counts_as_long_as_one_name_server_names_it() -> None:
    view = GroupView(("n1", "n2"), compat=False)
    assert view.members() is None
    view.answered("n1", Members({0: "a:0", 1: "a:1"}), 5)
    view.answered("n2", Members({1: "a:9"}), 6)
    assert view.members() == {0: "a:0", 1: "a:9"} and view.all_answer()
    assert view.names(0, "a:0") == 5 and view.names(0, "x:0") is None
    view.answered("n1", Members({}), 4)  # an answer to an older question
    view.answered("n1", CouldNotAnswer("no", old=True), 7)
    assert view.members() == {1: "a:9"} and view.asks_by_route("n1")
    assert view.members(since_ms=7) is None


def test_small_tables() -> None:
    assert not match([], []) and is_done(put_of(0))
    assert others_of({0: "a:0", 1: "a:1"}, 0) == ("a:1",)
    assert {one.how for one in FENCED.values()} == {How.REFUSED}
    assert all((one.how is How.REFUSED) <= bool(one.code) for one in AT_A_SLAVE.values())
