from lakehouse.tables.row_checks import AtLeast, OneOf, Present, TextLength, first_broken

ROW = {"id": "ab", "n": -1, "labels": ["X"], "none": None}


def test_each_check_says_what_is_wrong() -> None:
    checks = {
        Present("none"): "none is missing",
        AtLeast("n", 0): "n is below 0",
        TextLength("id", (0, 64)): "id is not 0 or 64 characters long",
        OneOf("labels", ("Y",)): "labels holds something else than Y",
    }
    for check, words in checks.items():
        assert first_broken(ROW, [check]) is check
        assert str(check) == words


def test_null_breaks_only_the_check_for_presence() -> None:
    assert (
        first_broken(ROW, [AtLeast("none", 0), TextLength("none", (1,)), OneOf("none", ())]) is None
    )


def test_kept_checks_are_passed_over() -> None:
    assert first_broken(ROW, [AtLeast("n", -1), TextLength("id", (2,)), Present("id")]) is None
