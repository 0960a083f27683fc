"""Ordered pops: the batch of one queue, as measured on RocketMQ 5.3.3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from brokers.service.popping.ordered import Acked, OrderedPops

KEY = "O1", "GO", 0
# measured, but for its offsets, which began at 2
FILE = (
    b'{"table":{"O1@GO":{0:{"a":"a3","cm":0,"i":15000,"l":1795413872657,"o":[2,1,2],"oc":{2:1},'
    b'"popTime":1795413872657}}}}'
)


def test_74_one_batch_at_a_time_and_the_same_attempt_gets_it_again() -> None:
    pops = OrderedPops()
    assert pops.popped(KEY, "a1", 1_000, 3_000, (0, 1, 2)) == {}
    assert not pops.blocks(KEY, "a1", 1_500)
    assert pops.blocks(KEY, "a2", 1_500) and pops.blocks(KEY, None, 3_999)
    assert pops.popped(KEY, "a1", 1_500, 3_000, (0, 1, 2)) == {}
    assert not pops.blocks(KEY, "a2", 4_500)
    assert pops.popped(KEY, "a2", 5_000, 3_000, (0, 1, 2, 3)) == {0: 1, 1: 1, 2: 1}
    assert pops.popped(KEY, "a2", 5_000, 3_000, (0, 1)) == {0: 1, 1: 1}
    assert pops.popped(KEY, None, 9_000, 3_000, (0,)) == {0: 2}


def test_75_acknowledgements_move_the_place_to_the_first_gap() -> None:
    pops = OrderedPops()
    pops.popped(KEY, None, 1_000, 3_000, (4, 5, 7))
    assert pops.ack(KEY, 5, 1_000, 4) == (Acked.MOVED, 4)
    assert pops.ack(KEY, 4, 1_000, 4) == (Acked.MOVED, 7)
    assert pops.ack(KEY, 6, 1_000, 4)[0] is Acked.UNKNOWN
    assert pops.ack(KEY, 7, 999, 4)[0] is Acked.NOTHING
    assert not pops.is_free(KEY, 1_000)
    assert pops.ack(KEY, 7, 1_000, 4) == (Acked.MOVED, 8) and pops.is_free(KEY, 1_000)


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        pytest.param(None, (Acked.MOVED, 4), id="a group without a place"),
        pytest.param(3, (Acked.MOVED, 4), id="the next message"),
        pytest.param(2, (Acked.NOTHING, 0), id="one in front may be left"),
    ],
)
def test_75_of_a_pop_that_is_not_known_only_the_next_message_moves_the_place(
    place: int | None, outcome: tuple[Acked, int]
) -> None:
    assert OrderedPops().ack(KEY, 3, 1, place) == outcome


def test_76_a_changed_time_frees_the_queue_then() -> None:
    pops = OrderedPops()
    pops.popped(KEY, None, 1_000, 60_000, (2, 3))
    assert pops.change(KEY, 2, 1_000, 4_000) and not pops.change(KEY, 2, 7, 9)
    assert not pops.change(KEY, 9, 1_000, 9)
    pops.ack(KEY, 3, 1_000, 4)
    assert pops.blocks(KEY, None, 3_999) and not pops.blocks(KEY, None, 4_000)
    assert pops.freed(3_999) == [] and pops.freed(4_000) == [KEY] and pops.freed(5_000) == []


def test_77_the_table_is_that_of_java() -> None:
    pops = OrderedPops()
    fields = fastjson.loads(FILE)
    assert isinstance(fields, dict) and pops.take(fields["table"]) == 0
    assert fastjson.loads(fastjson.dumps(pops.table())) == fields["table"]
    assert pops.blocks(KEY, "a4", 1795413887656) and not pops.blocks(KEY, "a3", 1795413887656)
    assert pops.popped(KEY, None, 1795413890000, 1, (2, 3)) == {2: 2, 3: 1}
    pops.change(KEY, 2, 1795413890000, 1795413899000)
    again = OrderedPops()
    again.take(pops.table())
    assert again.table() == pops.table()


@pytest.mark.parametrize(
    "batch",
    [
        None, {}, {"o": []}, {"o": [1, 0], "popTime": 1, "i": 1}, {"o": [-1], "popTime": 1, "i": 1},
        {"o": [1], "popTime": "x", "i": 1}, {"o": [1], "popTime": 1, "i": 1, "ot": {"x": 1}},
        {"o": list(range(1, 40)), "popTime": 1, "i": 1}, {"o": [1], "popTime": 1, "i": 1 << 63},
    ],
)  # fmt: skip
def test_88_an_entry_that_is_none_is_left_out(batch: object) -> None:
    pops = OrderedPops()
    assert pops.take({"O1@GO": {"0": batch}, "O1@G2": {"1": {"o": [1], "popTime": 1, "i": 1}}}) == 1
    assert len(pops) == 1


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.integers())))
def test_88_any_table_is_taken(table: dict[str, object]) -> None:
    OrderedPops().take(table)


def test_what_nobody_pops_for_a_day_is_forgotten() -> None:
    pops = OrderedPops()
    pops.popped(KEY, None, 1_000, 3_000, (4,))
    pops.drop(86_000_000, lambda _: True)
    assert len(pops) == 1
    pops.drop(86_402_000, lambda _: True)
    assert len(pops) == 0
    pops.popped(KEY, None, 1_000, 3_000, (4,))
    pops.drop(1_000, lambda topic: topic != "O1")
    assert len(pops) == 0
