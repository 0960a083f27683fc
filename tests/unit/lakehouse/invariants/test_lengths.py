"""Whoever remembers a later end than there is, is named with it."""

from lakehouse.invariants.lengths import AHEAD_MAX_MS, Shortened, Witness, shortened

ENDS = {("t", 0): 10, ("t", 1): 5}
NOW = 1_000_000


def test_a_partition_that_is_as_long_as_everybody_knows_is_well() -> None:
    known = [Witness("t", 0, 10, "a"), Witness("t", 1, 3, "b")]
    assert shortened(known, ENDS, NOW) == [] == shortened([], {}, NOW)


def test_those_that_know_the_last_record_are_named_together() -> None:
    known = [
        Witness("t", 0, 12, "gold"),
        Witness("t", 0, 14, "proof"),
        Witness("t", 0, 14, "check"),
        Witness("t", 2, 1, "proof"),
    ]
    first, gone = shortened(known, ENDS, NOW)
    assert first == Shortened("t", 0, 10, 14, ("check", "proof"))
    assert first.said == (
        "bronze ends at offset 9, check and proof know records up to 13: the end was taken away"
    )
    assert gone == Shortened("t", 2, 0, 1, ("proof",))


def test_what_was_written_just_now_may_be_ahead() -> None:
    new = Witness("t", 0, 11, "silver", NOW)
    assert shortened([new], ENDS, NOW + AHEAD_MAX_MS) == []
    assert [one.who for one in shortened([new], ENDS, NOW + AHEAD_MAX_MS + 1)] == [("silver",)]
