"""Which place counts at a start, and the settings that go with it."""

from __future__ import annotations

import pytest

from brokers.changeover.order import Kind, Lines, Order, Record
from brokers.changeover.placed import PlaceContradicts, counts, fields_of, text_of

ADOPTED = Order("c", Kind.CONTROLLERS, "r", "a", "h:1", "h:1", 2, 2, ("k:1",), "h:1;x", 1)
RELEASED = Order("c", Kind.FIXED, "r", "a", "h:1", "h:9", 1, 2)
FIXED_1, FIXED_0 = Lines(1), Lines(0)
WITH_K, WITH_L = Lines(None, ("k:1",)), Lines(None, ("l:1",))


@pytest.mark.parametrize(
    ("written", "record", "by_record"),
    [
        (FIXED_1, None, False),
        (FIXED_1, Record(ADOPTED, FIXED_1), True),
        (WITH_K, Record(ADOPTED, FIXED_1), False),
        (WITH_L, Record(ADOPTED, FIXED_1), False),
        (WITH_K, Record(RELEASED, WITH_K), True),
        (FIXED_1, Record(RELEASED, WITH_K), False),
        (FIXED_0, Record(RELEASED, FIXED_0), True),
        (FIXED_1, Record(RELEASED, FIXED_1), False),
    ],
    ids=[
        "no changeover",
        "the file of before adoption",
        "the file of adoption",
        "other controllers since",
        "the file of before release",
        "the file of release",
        "released to another id than the file's",
        "released to the id of the file",
    ],
)
def test_the_record_counts_as_long_as_the_file_is_that_of_before(
    written: Lines, record: Record | None, by_record: bool
) -> None:
    assert counts(written, record) is by_record


@pytest.mark.parametrize(
    ("written", "record", "verb"),
    [
        (FIXED_0, Record(ADOPTED, FIXED_1), "release"),
        (FIXED_0, Record(RELEASED, WITH_K), "adopt"),
        (WITH_L, Record(RELEASED, WITH_K), "adopt"),
    ],
    ids=["a second master beside the controllers'", "another id", "back to controllers"],
)
def test_a_file_that_says_a_third_thing_is_refused_with_the_way_out(
    written: Lines, record: Record, verb: str
) -> None:
    with pytest.raises(PlaceContradicts, match=f"regent controller {verb} a") as refused:
        counts(written, record)
    assert text_of(written) in str(refused.value)


def test_the_settings_of_the_other_place_go_and_as_many_copies_stay() -> None:
    file = {
        "listen": "h:1",
        "broker_id": 1,
        "broker_role": "SLAVE",
        "all_ack": False,
        "ha_master_address": "h:9",
        "in_sync_replicas": 2,
        "enable_slave_acting_master": True,
        "total_replicas": 3,
    }
    assert fields_of(file, ADOPTED) == {
        "listen": "h:1",
        "controllers": ["k:1"],
        "min_in_sync_replicas": 2,
    }
    file = {"listen": "h:1", "controllers": ["k:1"], "all_ack": True, "min_in_sync_replicas": 2}
    assert fields_of(file, RELEASED) == {"listen": "h:1", "broker_id": 1, "in_sync_replicas": 2}


def test_what_acting_wants_comes_back_with_a_file_that_has_it() -> None:
    file = {"broker_id": 0, "enable_slave_acting_master": True, "total_replicas": 3}
    assert fields_of(file, RELEASED) == {**file, "broker_id": 1, "in_sync_replicas": 2}
