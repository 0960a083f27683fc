"""Reads that wait for the log's end of their arrival (design D5)."""

from processors.controller.read_barrier import ReadBarrier


def barrier(*reads: str, deadline_ms: int = 100) -> ReadBarrier[str]:
    made: ReadBarrier[str] = ReadBarrier()
    for read in reads:
        made.add(read, deadline_ms)
    return made


def test_one_question_answers_all_who_wait() -> None:
    reads = barrier("a", "b")
    token = reads.ask()
    assert token is not None and reads.ask() is None
    assert reads.answered(token, 5, applied_offset=4) == ["a", "b"]
    assert reads.ask() is None


def test_a_question_under_way_is_too_old_for_newcomers() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    reads.add("b", 100)
    assert reads.answered(token, 0, applied_offset=-1) == ["a"]
    second = reads.ask()
    assert second is not None
    assert reads.answered(second, 0, applied_offset=-1) == ["b"]


def test_a_read_is_held_until_the_fold_has_passed_the_end() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    assert reads.answered(token, 6, applied_offset=4) == []
    assert reads.applied(4) == []
    assert reads.applied(5) == ["a"]
    assert len(reads) == 0


def test_an_unanswered_question_is_asked_again() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    assert reads.answered(token, None, applied_offset=9) == []
    again = reads.ask()
    assert again is not None and again != token
    assert reads.answered(token, 1, applied_offset=9) == [], "an answer to an old question"
    assert reads.answered(again, 1, applied_offset=9) == ["a"]


def test_deadlines_apply_wherever_a_read_waits() -> None:
    reads = barrier("asked")
    first = reads.ask()
    reads.add("unasked", 100)
    assert sorted(reads.expired(100)) == ["asked", "unasked"]
    assert len(reads) == 0
    assert first is not None and reads.answered(first, 1, applied_offset=0) == []


def test_held_reads_expire_too() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    reads.answered(token, 6, applied_offset=0)
    assert reads.expired(99) == []
    assert reads.expired(100) == ["a"]


def test_reads_held_for_several_ends_are_each_served_at_their_own() -> None:
    reads = barrier("a")
    for name, end in (("a", 6), ("b", 9), ("c", 12)):
        token = reads.ask()
        assert token is not None
        assert reads.answered(token, end, applied_offset=4) == []
        reads.add({"a": "b", "b": "c", "c": "d"}[name], 100)
    assert [reads.applied(offset) for offset in range(5, 13)] == [
        ["a"],
        [],
        [],
        ["b"],
        [],
        [],
        ["c"],
        [],
    ]
