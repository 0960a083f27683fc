"""Lines with the same settings share a cluster, in the order in which they stand."""

from tests.chaos.line import Line, by_settings


def test_lines_are_grouped_by_their_settings() -> None:
    one, two, three = (
        Line("a", "", lambda stage: ""),
        Line("b", "", lambda stage: "", settings={"all_ack": False}),
        Line("c", "", lambda stage: ""),
    )
    assert by_settings([one, two, three]) == [({}, [one, three]), ({"all_ack": False}, [two])]


def test_armed_lines_have_clusters_of_their_own() -> None:
    one, two, three = (
        Line("a", "", lambda stage: ""),
        Line("b", "", lambda stage: "", armed=True),
        Line("c", "", lambda stage: ""),
    )
    assert by_settings([one, two, three]) == [({}, [one, three]), ({}, [two])]
