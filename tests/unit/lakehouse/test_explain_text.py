import re

import pytest

from lakehouse.explain_text import VERDICT_WORDS, explain_text

import schemas

REFUSED = {
    "offset": 9, "at_ms": 1_767_225_600_000, "began_ms": 1_767_225_600_000, "term": 2,
    "decided_by": "n1", "cause": "asked", "accepted": False, "refusal": "STATE_MOVED",
    "code": 2000, "labels": [], "request": None,
    "previous": {"master_broker_id": None, "master_epoch": 0, "sync_state_set": []},
    "result": None, "candidates": [], "phases": [], "clients": None,
}  # fmt: skip


def test_every_verdict_has_its_words() -> None:
    """The closed list stands in the schema."""
    fields = {field["name"]: field for field in schemas.load("CandidateVerdict")["fields"]}
    named = set(re.findall(r"[A-Z][A-Z_]+[A-Z]", fields["verdict"]["doc"]))
    assert named == set(VERDICT_WORDS)


def test_a_refused_election_is_two_lines_of_reason() -> None:
    lines = explain_text({"broker_name": "b", "elections": [REFUSED]}).splitlines()
    assert lines[0] == (
        "b: election refused: STATE_MOVED (2000) at offset 9, 2026-01-01 00:00:00.000"
    )
    assert "no master, set {}" in lines[1]
    assert "command: not landed yet" in lines[3]


def row(broker_id: int, verdict: str, in_set: bool = False) -> dict[str, object]:
    numbers = {"epoch": 1, "max_offset": 5, "election_priority": 1}
    return {"broker_id": broker_id, "address": None, "in_set": in_set, "alive": verdict == "WAITING", "verdict": verdict, **numbers}


@pytest.mark.parametrize(
    ("candidates", "line"),
    [([row(1, "AWAITED"), row(2, "WAITING"), row(3, "AWAITED")], "  waits:   for {1,3}"),
     ([row(1, "NOT_ALIVE", True), row(2, "NOT_IN_SET")], "  waits:   for {1}"), ([], None)],
    ids=["all lost something", "members are down", "nobody was looked at"],
)  # fmt: skip
def test_an_election_without_a_winner_names_whom_the_set_waits_for(candidates, line) -> None:
    text = explain_text({"broker_name": "b", "elections": [{**REFUSED, "candidates": candidates}]})
    assert [one for one in text.splitlines() if "waits:" in one] == [line] * (line is not None)


def test_no_election_is_said_so() -> None:
    assert explain_text({"broker_name": "b", "elections": []}) == "b: no election has landed"


def test_what_began_before_the_election_has_one_sign() -> None:
    phases = [{"since_start_ms": -6, "took_ms": 3, "phase": "broker 1 started again"}, {"since_start_ms": 0, "took_ms": 0, "phase": "received"}]
    text = explain_text({"broker_name": "b", "elections": [{**REFUSED, "phases": phases}]})
    assert "    -6 ms  3 ms  broker 1 started again" in text and "    +0 ms  0 ms  received" in text
