"""Consumer offsets: stored as committed, also backwards, never below zero."""

import pytest

from brokers.remoting import fastjson
from brokers.service.tables import offsets as offsets_module
from brokers.service.tables.offsets import ConsumerOffsets


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
    assert [offsets.query(group, "T", 0) for group in ("g1", "g2")] == [
        None,
        None,
    ] and offsets.query("g3", "U", 0) == 1


def test_it_reads_unquoted_queue_ids_of_java_and_its_own_json() -> None:
    java = fastjson.loads(
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5},"offsetTable":{"T@g":{0:5,1:'
        b"7}}}"
    )
    offsets = ConsumerOffsets.from_wire(java)
    assert (offsets.query("g", "T", 0), offsets.query("g", "T", 1)) == (5, 7)
    again = ConsumerOffsets.from_wire(fastjson.loads(offsets.text()))
    slave = ConsumerOffsets()
    assert slave.adopt(again) and not slave.adopt(again) and slave.query("g", "T", 1) == 7


@pytest.mark.parametrize("body", [None, {}, {"offsetTable": []}])
def test_a_body_that_is_no_offset_table_is_refused(body: object) -> None:
    with pytest.raises(ValueError):
        ConsumerOffsets.from_wire(body)


@pytest.mark.parametrize(
    "entry",
    [
        {"Tg": {}},
        {"U@g": 1},
        {"U@g": {"0": "x"}},
        {"U@g": {"x": 1}},
        {"U@my.group": {"0": 1}},
        {"my.topic@g": {"0": 1}},
        {"U@" + "g" * 256: {"0": 1}},
    ],
)
def test_an_entry_that_is_no_offset_of_a_group_is_left_out_and_named(
    entry: dict[str, object],
) -> None:
    offsets = ConsumerOffsets.from_wire({"offsetTable": {"T@g": {"0": 5}, **entry}})
    assert offsets.left_out == tuple(entry) and offsets.query("g", "T", 0) == 5


def test_a_queue_that_no_topic_can_have_takes_no_place() -> None:
    offsets = ConsumerOffsets()
    assert not offsets.commit("g", "T", 65_535, 1, 1) and not offsets.commit(
        "g", "T", 2**31 - 1, 1, 1
    )
    assert offsets.commit("g", "T", 65_534, 1, 1)


def test_new_queues_are_refused_where_the_table_has_its_bytes_and_known_ones_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets_module, "TABLE_BYTES_MAX", 1_000)
    offsets = ConsumerOffsets()
    stored = [offsets.commit(f"g{number}", "T", 0, 2**63 - 1, 1) for number in range(100)]
    assert stored[0] and not stored[-1] and offsets.commit("g0", "T", 0, 5, 1)
    assert len(offsets.text()) <= 1_000 + len(ConsumerOffsets(offsets.version).text())
    offsets.remove_topic("T")
    assert offsets.commit("g99", "T", 0, 1, 1)
    for group in ("my.group", "x" * 1_040_000):
        assert not offsets.commit(group, "T", 0, 1, 1)


def test_a_master_that_knows_less_takes_no_offset_away() -> None:
    master, slave = ConsumerOffsets(), ConsumerOffsets()
    slave.commit("g", "T", 0, 1_000_000, 1)
    assert not slave.adopt(ConsumerOffsets(slave.version)) and slave.query("g", "T", 0) == 1_000_000
    slave.commit("h", "T", 0, 7, 1)
    master.commit("h", "T", 0, 5, 1)
    master.commit("h", "T", 1, 6, 1)
    assert slave.adopt(master) and not slave.adopt(master)
    assert [slave.query("h", "T", 0), slave.query("h", "T", 1), slave.query("g", "T", 0)] == [
        5,
        6,
        1_000_000,
    ]


def copied(
    slave: ConsumerOffsets, master: ConsumerOffsets, line: str, after: int, bytes_max: int
) -> tuple[int, int]:
    """All pieces there are: the number of the last change, and how many pieces it took."""
    pieces, more = 0, True
    while more:
        piece = master.piece(line, after, bytes_max)
        slave.adopt(ConsumerOffsets.from_wire(fastjson.loads(piece.body)))
        assert piece.up_to > after or not piece.more
        after, more, line, pieces = piece.up_to, piece.more, master.line, pieces + 1
    return after, pieces


def table_of(offsets: ConsumerOffsets) -> object:
    document = fastjson.loads(offsets.text())
    assert isinstance(document, dict)
    return document["offsetTable"]


@pytest.mark.parametrize("bytes_max", [1, 60, 10_000])
def test_who_copies_gets_everything_once_and_then_what_changed(bytes_max: int) -> None:
    master, slave = ConsumerOffsets(), ConsumerOffsets()
    master.line = "life 1"
    for number in range(20):
        master.commit(f"g{number}", "T", number % 3, number, 1)
    after, pieces = copied(slave, master, "", 0, bytes_max)
    assert table_of(slave) == table_of(master) and (pieces > 1) is (bytes_max < 100)
    nothing = master.piece("life 1", after)
    assert (nothing.up_to, nothing.more) == (after, False) and b'"offsetTable":{}' in nothing.body
    master.commit("g3", "T", 0, 33, 2)
    master.commit("h", "T", 0, 1, 2)
    body = master.piece("life 1", after).body
    assert b"T@g3" in body and b"T@h" in body and b"T@g4" not in body
    copied(slave, master, "life 1", after, bytes_max)
    assert table_of(slave) == table_of(master) and slave.version == master.version


def test_entries_that_change_between_two_pieces_are_not_missed() -> None:
    master, slave = ConsumerOffsets(), ConsumerOffsets()
    master.line = "life 1"
    for number in range(10):
        master.commit(f"g{number}", "T", 0, number, 1)
    first = master.piece("life 1", 0, 40)
    assert first.more
    for number in (0, 9, 10):
        master.commit(f"g{number}", "T", 0, 100 + number, 2)
    slave.adopt(ConsumerOffsets.from_wire(fastjson.loads(first.body)))
    copied(slave, master, "life 1", first.up_to, 40)
    assert table_of(slave) == table_of(master)


def test_a_master_that_was_started_anew_tells_everything_again() -> None:
    master = ConsumerOffsets()
    master.line = "life 2"
    master.commit("g", "T", 0, 5, 1)
    assert (
        b"T@g" in master.piece("life 1", 1_000).body
        and b"T@g" not in master.piece("life 2", 1).body
    )


def test_offsets_of_a_topic_that_is_gone_are_in_no_piece_and_no_file() -> None:
    offsets = ConsumerOffsets()
    offsets.line = "life 1"
    offsets.commit("g", "T", 0, 5, 1)
    offsets.commit("g", "U", 0, 5, 1)
    assert b"T@g" in offsets.text()
    offsets.remove_topic("T")
    assert b"T@g" not in offsets.text() and b"T@g" not in offsets.piece("", 0).body


def test_a_stored_table_of_any_length_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "GROUP_TOPICS_MAX", 2)
    stored = {"offsetTable": {f"T@g{number}": {"0": number} for number in range(5)}}
    offsets = ConsumerOffsets.from_wire(stored)
    assert offsets.query("g4", "T", 0) == 4 and not offsets.dirty
    assert offsets.commit("g4", "T", 0, 9, 1) and not offsets.commit("g5", "T", 0, 9, 1)


def test_beginnings_are_noted_once_bounded_and_give_way_to_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offsets = ConsumerOffsets()
    assert offsets.begin("g", "T", {0: 5, 1: 6}) and not offsets.begin("g", "T", {0: 7, 1: 8})
    assert offsets.start("g", "T", 0) is None  # of this very mastership
    offsets.mastership_began()
    assert (offsets.start("g", "T", 0), offsets.start("g", "T", 1), offsets.start("g", "T", 2)) == (
        5,
        6,
        None,
    )
    offsets.commit("g", "T", 0, 9, 1)
    assert (
        offsets.start("g", "T", 0) is None
        and offsets.begin("g", "T", {0: 1, 2: 3})
        and not offsets.has_begun("g", "T", 0)
    )
    again = ConsumerOffsets.from_wire(fastjson.loads(offsets.text()))
    assert (again.start("g", "T", 1), again.start("g", "T", 2), again.query("g", "T", 0)) == (
        6,
        3,
        9,
    )
    assert again._bytes == offsets._bytes
    monkeypatch.setattr(offsets_module, "STARTS_BYTES_MAX", offsets._bytes)
    assert not offsets.begin("h", "T", {0: 1}) and offsets.commit("h", "T", 0, 1, 1)
    for each in (offsets, again):
        each.remove_topic("T")
        assert each._bytes == 0 and not each.has_begun("g", "T", 1)
