"""Which blows are struck, and what a row says."""

from tests.chaos.run import BLOWS, chosen
from tests.chaos.stage import HEAD, Row


def test_names_pick_by_their_beginning() -> None:
    assert chosen([]) == list(BLOWS)
    assert {one.name for one in chosen(["kafka", "sets"])} == {"kafka-restarted", "kafka-paused", "kafka-killed", "sets"}
    assert chosen(["nothing like it"]) == []
    assert len({one.name for one in BLOWS}) == len(BLOWS)


def test_a_row_has_a_cell_for_every_column_and_a_problem_hides_the_note() -> None:
    row = Row("kafka-killed", "kill -9", 12.3, 0.51, 240.0, 100, 0, 2)
    assert row.cells() == ("kafka-killed", "12 s", "0.5 s", "0.24 s", "100", "0", "2", "kill -9")
    row.problem, row.decision_s = "lost: 7", None
    assert row.cells()[-1] == "lost: 7" and row.cells()[2] == "-" and len(row.cells()) == len(HEAD)
