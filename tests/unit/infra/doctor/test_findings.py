from infra.doctor.findings import FAIL, OK, WARN, Finding, render, verdict_of

ALL = [Finding("disk", OK, "room"), Finding("kafka nodes", FAIL, "gone", "Start it:", "run it")]


def test_each_line_carries_the_verdict_and_the_way_out_stands_below() -> None:
    assert render(ALL) == [
        "ok    disk         room",
        "fail  kafka nodes  gone",
        "                   → Start it:",
        "                     run it",
    ]


def test_the_worst_line_counts() -> None:
    assert verdict_of(ALL) == FAIL and verdict_of(ALL[:1]) == OK and verdict_of([]) == OK
    assert verdict_of([ALL[0], Finding("x", WARN, "y")]) == WARN
