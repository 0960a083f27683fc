"""Lines that want the same cluster share one, in the order in which they stand."""

from tests.chaos import feature_lines
from tests.chaos.line import Line, by_cluster


def test_lines_are_grouped_by_their_settings() -> None:
    one, two, three = (
        Line("a", "", lambda stage: ""),
        Line("b", "", lambda stage: "", settings={"all_ack": False}),
        Line("c", "", lambda stage: ""),
    )
    assert by_cluster([one, two, three]) == [[one, three], [two]]


def test_armed_lines_and_those_of_a_cluster_as_shipped_have_clusters_of_their_own() -> None:
    lines = [
        Line("a", "", lambda stage: ""),
        Line("b", "", lambda stage: "", armed=True),
        Line("c", "", lambda stage: "", shipped=True),
        Line("d", "", lambda stage: ""),
    ]
    assert by_cluster(lines) == [[lines[0], lines[3]], [lines[1]], [lines[2]]]


def test_every_feature_is_used_while_the_master_is_killed_and_while_it_stands_still() -> None:
    names = {line.name for line in feature_lines.LINES}
    for feature in ("timed", "delayed", "transactions", "pops"):
        assert {f"{feature}-killed", f"{feature}-paused"} <= names
    assert len(by_cluster(feature_lines.LINES)) == 1
