from lakehouse.tables.row_checks import AtLeast, Between, OneOf, Present, TextLength, first_broken

ROW = {"id": "ab", "n": -1, "labels": ["X"], "none": None, "at": [("a", 5), ("b", 11)]}


def test_each_check_says_what_is_wrong() -> None:
    checks = {
        Present("none"): "none is missing",
        AtLeast("n", 0): "n is below 0",
        Between("n", 0, 9): "n is not between 0 and 9",
        Between("at", 5, 10): "at is not between 5 and 10",
        TextLength("id", (0, 64)): "id is not 0 or 64 characters long",
        OneOf("labels", ("Y",)): "labels holds something else than Y",
    }
    for check, words in checks.items():
        assert first_broken(ROW, [check]) is check
        assert str(check) == words


def test_null_breaks_only_the_check_for_presence() -> None:
    checks = (AtLeast("none", 0), Between("none", 0, 1), TextLength("none", (1,)))
    assert first_broken(ROW, [*checks, OneOf("none", ())]) is None


def test_kept_checks_are_passed_over() -> None:
    checks = (AtLeast("n", -1), Between("n", -1, -1), Between("at", 5, 11))
    assert first_broken(ROW, [*checks, TextLength("id", (2,)), Present("id")]) is None
