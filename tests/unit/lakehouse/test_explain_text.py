import re

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


def test_no_election_is_said_so() -> None:
    assert explain_text({"broker_name": "b", "elections": []}) == "b: no election has landed"


def test_what_began_before_the_election_has_one_sign() -> None:
    phases = [{"since_start_ms": -6, "took_ms": 3, "phase": "broker 1 started again"}, {"since_start_ms": 0, "took_ms": 0, "phase": "received"}]
    text = explain_text({"broker_name": "b", "elections": [{**REFUSED, "phases": phases}]})
    assert "    -6 ms  3 ms  broker 1 started again" in text and "    +0 ms  0 ms  received" in text
