"""The window of recent command ids."""

from processors.fold.recent_commands import FirstOutcome, RecentCommands


def first(offset: int) -> FirstOutcome:
    return FirstOutcome(offset, "ElectMaster", "b", True, None, 0)


def filled(*offsets: int) -> RecentCommands:
    recent = RecentCommands()
    for offset in offsets:
        recent.remember(bytes([offset]), first(offset))
    return recent


def test_an_id_is_found_with_its_first_outcome():
    assert filled(3).get(bytes([3])) == first(3)
    assert filled(3).get(bytes([4])) is None


def test_what_is_older_is_forgotten_and_the_rest_kept_in_order():
    recent = filled(1, 2, 5, 9)
    recent.forget_before(5)
    assert [entry.offset for _, entry in recent.items()] == [5, 9]
    assert recent.get(bytes([2])) is None
    assert (len(recent), recent.complete_from) == (2, 5)


def test_what_was_forgotten_stays_forgotten():
    recent = filled(1, 2, 5)
    recent.forget_before(4)
    recent.forget_before(1)
    assert recent.complete_from == 4


def test_nothing_is_left_to_forget():
    recent = filled()
    recent.forget_before(10)
    assert (len(recent), recent.complete_from) == (0, 10)


def test_a_copy_stays_as_it_was():
    recent = filled(1, 2, 5)
    recent.forget_before(2)
    twin = recent.copy()
    recent.remember(b"new", first(6))
    recent.forget_before(6)
    assert [entry.offset for _, entry in twin.items()] == [2, 5]
    assert twin.complete_from == 2
