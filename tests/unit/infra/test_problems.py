from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem


def test_a_problem_is_one_line_with_the_way_out() -> None:
    problem = Problem("port 1\nis taken.", "Use\n another.", EXIT_USAGE)
    assert problem.line() == "port 1 is taken. Use another."
    assert problem.exit_code == EXIT_USAGE


def test_a_problem_without_a_way_out_is_what_is_wrong() -> None:
    assert Problem("it broke", "").line() == "it broke"
    assert Problem("it broke", "").exit_code == EXIT_FAILED


def test_a_question_keeps_its_mark() -> None:
    assert Problem("has it run?", "Run it.").line() == "has it run? Run it."
