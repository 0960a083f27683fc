"""The verdict on a demo of a set that replicates by majority, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from infra.demo.majority_report import KINDS, render, verdict

LED = {
    "leader_before": "a-1",
    "leader_after": "a-2",
    "term_before": 1,
    "term_after": 2,
    "whole_s": 3.0,
    "outage": {"rto_ms": 1_500.0, "failed_calls": 4},
}
EMPTIED = {"kind": "emptied", "emptied": "a-3", "copied_bytes": 5e6, "whole_s": 2.0, "outages": 0}
STEPS = [
    {"step": kind, **(EMPTIED if kind == "emptied" else {"kind": kind, **LED, "alone_bytes": 77})}
    for kind in KINDS
]
MESSAGES = {
    "messages": 9,
    "calls": 11,
    "acknowledged": 9,
    "lost": 0,
    "misplaced": 0,
    "corrupt": 0,
    "out_of_order": 0,
    "never_sent": 0,
    "duplicated": 1,
    "unknown_calls": 2,
    "stored": 10,
    "consumed": 9,
    "acknowledged_not_consumed": 0,
    "seconds": 1.0,
}
LOGS = {"replicas": ["a-1", "a-2"], "entries": 12, "terms": 2, "first_difference": None}


def document(**changes: Any) -> dict[str, Any]:
    whole = {"problems": [], "steps": STEPS, "messages": MESSAGES, "logs": LOGS, "seconds": 60.0}
    return {**whole, **changes}


def test_a_run_that_kept_every_promise_is_good() -> None:
    assert verdict(document()) == []
    told = "\n".join(render(document()))
    assert "GOOD: nothing acknowledged was lost, and the members' logs are one" in told
    assert "leader a-1 → a-2, term 1 → 2; RTO 1.50 s (4 failed calls)" in told
    assert "77 bytes were on a-1 alone, acknowledged to nobody" in told
    assert "a-3 lost its disk, copied 5.0 MB" in told
    assert "12 entries of 2 terms, equal by index, term and checksum" in told


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"messages": {**MESSAGES, "lost": 2}}, "2 acknowledged messages are lost"),
        ({"messages": {**MESSAGES, "acknowledged": 0}}, "nothing was acknowledged"),
        ({"logs": {**LOGS, "first_difference": 7}}, "the members' logs differ at entry 7"),
        ({"logs": {**LOGS, "entries": 0}}, "no entry was compared"),
        ({"steps": STEPS[1:]}, "no member was killed"),
        ({"problems": ["it hung"]}, "it hung"),
    ],
)
def test_what_was_promised_and_is_not_so_is_named(change: dict[str, Any], why: str) -> None:
    assert verdict(document(**change)) == [why]
    assert why in "\n".join(render(document(**change)))


def test_a_run_that_did_not_come_to_its_end_is_not_good() -> None:
    broken = {"problems": [], "steps": []}
    assert verdict(broken) == ["the run did not come to its end"]
    assert "NOT GOOD" in "\n".join(render(broken))
