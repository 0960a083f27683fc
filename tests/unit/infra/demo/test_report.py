import pytest

from infra.demo import report

MESSAGES = {
    "messages": 10,
    "calls": 12,
    "acknowledged": 10,
    "stored": 11,
    "lost": 0,
    "misplaced": 0,
    "duplicated": 1,
    "out_of_order": 0,
    "never_sent": 0,
    "corrupt": 0,
    "consumed": 10,
    "acknowledged_not_consumed": 0,
}
REPLICAS = {
    "replicas": ["a", "b"],
    "equal": True,
    "first_difference": None,
    "bytes": 5_000_000,
    "to_offset": 5_000_000,
}
GOOD = {
    "steps": [
        {
            "step": "kill",
            "kind": "master",
            "killed": "broker-a-1",
            "master_before": 1,
            "master_after": 2,
            "epoch_before": 1,
            "epoch_after": 2,
            "set_whole_again_s": 3.0,
            "outage": {"rto_ms": 140.0, "failed_calls": 4},
            "phases": [
                {"phase": "probed", "after_ms": 3},
                {"phase": ("first message acknowledged"), "after_ms": 90},
            ],
        },
        {"step": "late", "kind": "refusal", "code": 2002, "remark": "NOT_THE_MASTER"},
    ],
    "problems": [],
    "messages": MESSAGES,
    "replicas": REPLICAS,
    "seconds": 100.0,
    "history": {
        "expected": [{"name": "refusals", "found": 1, "least": 1, "ok": True}],
        "asked": [{"command": "regent verify", "code": 0}],
    },
}


def test_a_good_run_says_so_in_its_last_line() -> None:
    lines = report.render(GOOD)
    assert report.verdict(GOOD) == [] and lines[-1].startswith(
        "GOOD: nothing acknowledged was lost"
    )
    assert any("RTO 0.14 s" in line for line in lines)
    assert any(
        line.endswith("phases: probed +3 ms, first message acknowledged +90 ms") for line in lines
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"messages": {**MESSAGES, "lost": 1}}, "lost"),
        ({"messages": {**MESSAGES, "corrupt": 1}}, "changed"),
        ({"messages": {**MESSAGES, "out_of_order": 2}}, "out of order"),
        ({"messages": {**MESSAGES, "acknowledged": 0}}, "nothing was acknowledged"),
        ({"messages": {**MESSAGES, "acknowledged_not_consumed": 1}}, "never reached the consumer"),
        ({"replicas": {**REPLICAS, "equal": False, "first_difference": 7}}, "differ at offset 7"),
        (
            {
                "history": {
                    "expected": [{"name": "x", "found": 0, "least": 1, "ok": False}],
                    "asked": [],
                }
            },
            "expected at least 1",
        ),
        (
            {"history": {"expected": [], "asked": [{"command": "regent verify", "code": 1}]}},
            "exit code 1",
        ),
        ({"problems": ["it broke"]}, "it broke"),
        ({"messages": None}, "did not come to its end"),
    ],
)
def test_whatever_is_wrong_spoils_the_verdict(change: dict[str, object], word: str) -> None:
    document = {**GOOD, **change}
    assert any(word in reason for reason in report.verdict(document))
    assert any(line.startswith("NOT GOOD") for line in report.render(document))
