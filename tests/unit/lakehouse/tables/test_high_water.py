import pytest

from lakehouse.errors import LandingGap
from lakehouse.tables.high_water import HighWater, check_no_hole, next_offsets

PART = ("regent.commands", 0)


def test_a_record_is_new_once() -> None:
    mark = HighWater()
    assert mark.is_new(PART, 0)
    mark.raise_to([(PART, 4)])
    assert not mark.is_new(PART, 4)
    assert mark.is_new(PART, 5)
    assert mark.is_new(("regent.commands", 1), 0)


def test_marks_never_fall() -> None:
    mark = HighWater({PART: 7})
    mark.raise_to([(PART, 3)])
    assert mark.of(PART) == 7


@pytest.mark.parametrize(
    ("mark", "offsets", "from_zero"),
    [
        (-1, [0, 1, 2], True),
        (4, [5, 6], True),
        (4, [2, 3, 4, 5], True),  # A replay that goes on.
        (4, [0, 1], True),  # A replay alone.
        (-1, [900, 901], False),  # Retention cut the head before the first landing.
    ],
)
def test_a_batch_that_goes_on_is_taken(mark: int, offsets: list[int], from_zero: bool) -> None:
    check_no_hole(mark, PART, offsets, from_zero=from_zero)


@pytest.mark.parametrize(
    ("mark", "offsets", "from_zero", "words"),
    [
        (-1, [1], True, "0 to 0"),
        (4, [6], True, "5 to 5"),
        (4, [3, 4, 8], True, "5 to 7"),
        (4, [9], False, "5 to 8"),
        (-1, [900, 902], False, "901 to 901"),
    ],
)
def test_a_hole_is_refused(mark: int, offsets: list[int], from_zero: bool, words: str) -> None:
    with pytest.raises(LandingGap, match=f"records {words} are missing"):
        check_no_hole(mark, PART, offsets, from_zero=from_zero)


def test_a_hole_of_which_every_record_is_noted_as_lost_is_passed_by() -> None:
    def behind(partition: tuple[str, int], offset: int) -> int:
        return 9 if partition == PART and 5 <= offset <= 8 else offset

    check_no_hole(4, PART, [9, 10], from_zero=True, behind=behind)
    check_no_hole(3, PART, [4, 9], from_zero=True, behind=behind)
    with pytest.raises(LandingGap, match="records 9 to 9 are missing"):
        check_no_hole(4, PART, [10], from_zero=True, behind=behind)
    with pytest.raises(LandingGap, match="records 4 to 8 are missing"):
        check_no_hole(3, PART, [9], from_zero=True, behind=behind)


def test_next_offsets_are_named_by_partition() -> None:
    assert next_offsets({PART: 4}) == {"regent.commands-0": 5}
