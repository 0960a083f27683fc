"""How checks and steps read."""

from infra.migration.plan import Check, Step
from infra.migration.report import check_lines, step_lines

CHECKS = [
    Check("a", True, "fine"),
    Check("b", False, "not so", "do this"),
    Check("c", False, "a little", "know this", fatal=False),
]


def test_what_does_not_hold_has_its_way_out_and_what_holds_is_shown_when_wanted() -> None:
    assert [line.split() for line in check_lines(CHECKS, False)] == [
        ["REFUSED", "not", "so"],
        ["do", "this"],
        ["mind", "a", "little"],
        ["know", "this"],
    ]
    assert check_lines(CHECKS, True)[0].split() == ["ok", "fine"]


def test_steps_that_are_done_show_no_commands() -> None:
    lines = step_lines([Step("one", ("cmd 1",), "x"), Step("two", ("cmd 2",), "y")], 1)
    assert "  1. (done) one" in lines and not any("cmd 1" in line for line in lines)
    assert "       cmd 2" in lines and "     expect: y" in lines
