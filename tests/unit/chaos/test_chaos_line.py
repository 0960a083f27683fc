"""Lines that want the same cluster share one, in the order in which they stand."""

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
