"""What was done and what is safe: only the second is for a successor."""

from brokers.service.timers.progress import Progress


def test_a_slot_is_safe_when_its_copies_are() -> None:
    progress = Progress(1_000, 0, 0)
    progress.slot_read(1_000, 500, 2_000)
    progress.slot_read(3_000, 900, 4_000)
    assert progress.read_ms == 4_000 and progress.safe_read_ms == 1_000
    assert progress.settle(499) == [] and progress.safe_read_ms == 1_000
    assert progress.settle(500) == [1_000] and progress.safe_read_ms == 3_000
    assert progress.settle(10_000) == [3_000] and progress.safe_read_ms == 4_000


def test_an_empty_slot_and_one_without_copies_hold_nothing_up() -> None:
    progress = Progress(1_000, 0, 0)
    progress.move_to(5_000)
    assert progress.safe_read_ms == 5_000
    progress.slot_read(5_000, 0, 6_000)
    assert progress.settle(0) == [5_000] and progress.safe_read_ms == 6_000


def test_a_place_of_the_queue_is_safe_when_its_records_are() -> None:
    progress = Progress(1_000, 0, 0)
    assert progress.safe_offset(7) == 7
    progress.enqueued(0, 300)
    progress.enqueued(32, 600)
    assert progress.unsafe == 2 and progress.safe_offset(64) == 0
    progress.settle(300)
    assert progress.safe_offset(64) == 32
    progress.settle(600)
    assert progress.safe_offset(64) == 64 and progress.unsafe == 0


def test_a_clock_set_back_takes_what_is_told_back_too() -> None:
    progress = Progress(9_000, 0, 0)
    progress.move_to(5_000)
    assert progress.safe_read_ms == 5_000
    progress.slot_read(5_000, 10, 6_000)
    progress.move_to(4_000)
    assert progress.safe_read_ms == 4_000


def test_what_the_masters_before_did_for_good_is_in_front_of_both_places() -> None:
    progress = Progress(5_000, 5_000, 10)
    assert progress.was_delivered(9, 4_000)
    assert not progress.was_delivered(10, 4_000)
    assert not progress.was_delivered(9, 5_000)
