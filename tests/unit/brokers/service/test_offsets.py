"""Consumer offsets: stored as committed, also backwards, never below zero."""

import pytest

from brokers.remoting import fastjson
from brokers.service import offsets as offsets_module
from brokers.service.offsets import ConsumerOffsets


def test_an_offset_is_found_again_and_may_go_back() -> None:
    offsets = ConsumerOffsets()
    assert offsets.query("g", "T", 0) is None
    assert offsets.commit("g", "T", 0, 9, 1) and offsets.commit("g", "T", 0, 5, 2)
    assert offsets.query("g", "T", 0) == 5 and offsets.dirty


def test_minus_one_as_go_sends_it_leaves_the_offset_unknown() -> None:
    offsets = ConsumerOffsets()
    assert not offsets.commit("g", "T", 0, -1, 1)
    assert offsets.query("g", "T", 0) is None and not offsets.dirty


def test_an_equal_offset_changes_nothing() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 9, 1)
    version, offsets.dirty = offsets.version, False
    assert offsets.commit("g", "T", 0, 9, 2)
    assert offsets.version == version and not offsets.dirty


def test_offsets_are_forgotten_with_their_topic() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g1", "T", 0, 1, 1)
    offsets.commit("g2", "T", 0, 1, 1)
    offsets.commit("g3", "U", 0, 1, 1)
    offsets.remove_topic("T")
    assert [offsets.query(group, "T", 0) for group in ("g1", "g2")] == [None, None] and offsets.query("g3", "U", 0) == 1


def test_it_reads_unquoted_queue_ids_of_java_and_its_own_json() -> None:
    java = fastjson.loads(b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5},"offsetTable":{"T@g":{0:5,1:7}}}')
    offsets = ConsumerOffsets.from_wire(java)
    assert (offsets.query("g", "T", 0), offsets.query("g", "T", 1)) == (5, 7)
    again = ConsumerOffsets.from_wire(fastjson.loads(fastjson.dumps(offsets.to_wire())))
    slave = ConsumerOffsets()
    assert slave.take_over(again) and not slave.take_over(again) and slave.query("g", "T", 1) == 7


@pytest.mark.parametrize("body", [None, {}, {"offsetTable": []}])
def test_a_body_that_is_no_offset_table_is_refused(body: object) -> None:
    with pytest.raises(ValueError):
        ConsumerOffsets.from_wire(body)


@pytest.mark.parametrize("entry", [{"Tg": {}}, {"U@g": 1}, {"U@g": {"0": "x"}}, {"U@g": {"x": 1}}, {"U@my.group": {"0": 1}},
                                   {"my.topic@g": {"0": 1}}, {"U@" + "g" * 256: {"0": 1}}])  # fmt: skip
def test_an_entry_that_is_no_offset_of_a_group_is_left_out_and_named(entry: dict[str, object]) -> None:
    offsets = ConsumerOffsets.from_wire({"offsetTable": {"T@g": {"0": 5}, **entry}})
    assert offsets.left_out == tuple(entry) and offsets.query("g", "T", 0) == 5


def test_a_queue_that_no_topic_can_have_takes_no_place() -> None:
    offsets = ConsumerOffsets()
    assert not offsets.commit("g", "T", 65_535, 1, 1) and not offsets.commit("g", "T", 2**31 - 1, 1, 1)
    assert offsets.commit("g", "T", 65_534, 1, 1)


def test_new_queues_are_refused_where_the_table_has_its_bytes_and_known_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "TABLE_BYTES_MAX", 1_000)
    offsets = ConsumerOffsets()
    stored = [offsets.commit(f"g{number}", "T", 0, 2**63 - 1, 1) for number in range(100)]
    assert stored[0] and not stored[-1] and offsets.commit("g0", "T", 0, 5, 1)
    assert len(fastjson.dumps(offsets.to_wire()["offsetTable"])) <= 1_000
    offsets.remove_topic("T")
    assert offsets.commit("g99", "T", 0, 1, 1)
    for group in ("my.group", "x" * 1_040_000):
        assert not offsets.commit(group, "T", 0, 1, 1)


def test_a_master_that_knows_less_takes_no_offset_away() -> None:
    master, slave = ConsumerOffsets(), ConsumerOffsets()
    slave.commit("g", "T", 0, 1_000_000, 1)
    assert not slave.take_over(ConsumerOffsets(slave.version)) and slave.query("g", "T", 0) == 1_000_000
    slave.commit("h", "T", 0, 7, 1)
    master.commit("h", "T", 0, 5, 1)
    master.commit("h", "T", 1, 6, 1)
    assert slave.take_over(master) and not slave.take_over(master)
    assert [slave.query("h", "T", 0), slave.query("h", "T", 1), slave.query("g", "T", 0)] == [5, 6, 1_000_000]
