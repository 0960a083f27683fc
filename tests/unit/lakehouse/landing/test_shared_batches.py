from __future__ import annotations

import threading
from collections.abc import Sequence

from lakehouse.landing.batches import positions
from lakehouse.landing.shared_batches import SharedBatches
from tests.support.landed_log import batch_of

A, B = ("a", 0), ("b", 1)


def put(shared: SharedBatches, *stretches: tuple[tuple[str, int], int, int]) -> None:
    """A batch of these records of ten bytes each."""
    records = [
        (*place, offset, b"x" * 10)
        for place, start, end in stretches
        for offset in range(start, end)
    ]
    shared.put(batch_of(records), {place: (start, end) for place, start, end in stretches})


def taken(
    shared: SharedBatches, *stretches: tuple[tuple[str, int], int, int]
) -> dict[tuple[str, int], Sequence[int]] | None:
    rows = shared.take({place: (start, end) for place, start, end in stretches}, 0.0)
    return None if rows is None else positions(rows)


def test_a_stretch_comes_from_several_batches_in_log_order() -> None:
    shared = SharedBatches(lambda place: 0)
    put(shared, (B, 0, 3), (A, 0, 2))
    put(shared, (A, 2, 4))
    put(shared, (B, 3, 5))
    assert taken(shared, (B, 1, 5), (A, 0, 3)) == {A: [0, 1, 2], B: [1, 2, 3, 4]}


def test_what_the_first_query_has_not_landed_yet_is_not_there() -> None:
    shared = SharedBatches(lambda place: 0)
    put(shared, (A, 0, 2))
    assert taken(shared, (A, 0, 3)) is None
    assert taken(shared, (A, 0, 2), (B, 0, 1)) is None


def test_what_was_landed_before_this_job_is_not_there_and_nobody_waits_for_it() -> None:
    shared = SharedBatches(lambda place: 7)
    put(shared, (A, 7, 9))
    assert shared.take({A: (6, 9)}, 60.0) is None
    assert taken(shared, (A, 7, 9)) == {A: [7, 8]}


def test_records_that_the_log_does_not_hold_are_no_reason_to_wait() -> None:
    shared = SharedBatches(lambda place: 0)
    shared.put(batch_of([("a", 0, 5, b"")]), {A: (0, 6)})
    assert taken(shared, (A, 0, 6)) == {A: [5]}


def test_only_so_many_bytes_are_kept_the_newest_ones() -> None:
    shared = SharedBatches(lambda place: 0, bytes_max=3 * batch_of([("a", 0, 0, b"x" * 10)]).nbytes)
    for number in range(5):
        put(shared, (A, number, number + 1))
    assert taken(shared, (A, 1, 5)) is None
    assert taken(shared, (A, 2, 5)) == {A: [2, 3, 4]}


def test_what_the_other_query_has_finished_is_forgotten() -> None:
    shared = SharedBatches(lambda place: 0)
    put(shared, (A, 0, 2), (B, 0, 1))
    put(shared, (A, 2, 4))
    shared.forget({A: 1, B: -1}.__getitem__)
    assert taken(shared, (A, 0, 4), (B, 0, 1)) == {A: [0, 1, 2, 3], B: [0]}
    shared.forget({A: 2, B: 0}.__getitem__)
    assert taken(shared, (A, 1, 4)) is None
    assert taken(shared, (A, 2, 4)) == {A: [2, 3]}


def test_a_batch_that_does_not_go_on_where_the_last_one_ended_stands_alone() -> None:
    shared = SharedBatches(lambda place: 0)
    put(shared, (A, 0, 4), (B, 0, 1))
    put(shared, (A, 2, 6))
    assert taken(shared, (A, 0, 6)) is None
    assert taken(shared, (A, 2, 6)) == {A: [2, 3, 4, 5]}
    assert taken(shared, (B, 0, 1)) is None


def test_it_is_waited_for_until_it_comes_or_the_job_ends() -> None:
    shared = SharedBatches(lambda place: 0)
    later = threading.Timer(0.02, put, (shared, (A, 0, 2)))
    later.start()
    found = shared.take({A: (0, 2)}, 60.0)
    later.join()
    assert found is not None
    assert shared.take({A: (2, 3)}, 60.0, given_up=lambda: True) is None
