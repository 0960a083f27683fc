import re

import pytest
from msgspec.structs import asdict

import schemas
from events.outcomes import Outcome
from lakehouse.answers.explain_text import VERDICT_WORDS, explain_text
from tests.support.control_history import History, seen, with_master

REFUSED = {
    "offset": 9, "at_ms": 1_767_225_600_000, "began_ms": 1_767_225_600_000, "term": 2,
    "decided_by": "n1", "cause": "asked", "accepted": False, "refusal": "STATE_MOVED",
    "code": 2000, "labels": [], "request": None,
    "previous": {"master_broker_id": None, "master_epoch": 0, "sync_state_set": []},
    "result": None, "candidates": [], "phases": [], "clients": None,
}  # fmt: skip


def model(elections: list[dict[str, object]]) -> dict[str, object]:
    """Of a set that controllers lead."""
    return {
        "broker_name": "b",
        "without_controllers": False,
        "elections": elections,
        "acting_periods": [],
        "changeovers": [],
    }


def test_every_verdict_has_its_words() -> None:
    """The closed list stands in the schema."""
    fields = {field["name"]: field for field in schemas.load("CandidateVerdict")["fields"]}
    named = set(re.findall(r"[A-Z][A-Z_]+[A-Z]", fields["verdict"]["doc"]))
    assert named == set(VERDICT_WORDS)


def test_a_refused_election_is_two_lines_of_reason() -> None:
    lines = explain_text(model([REFUSED])).splitlines()
    assert lines[0] == (
        "b: election refused: STATE_MOVED (2000) at offset 9, 2026-01-01 00:00:00.000"
    )
    assert "no master, set {}" in lines[1]
    assert "command: not landed yet" in lines[3]


def row(broker_id: int, verdict: str, in_set: bool = False) -> dict[str, object]:
    numbers = {"epoch": 1, "max_offset": 5, "election_priority": 1}
    return {
        "broker_id": broker_id,
        "address": None,
        "in_set": in_set,
        "alive": verdict == "WAITING",
        "clean": True,
        "verdict": verdict,
        **numbers,
    }


@pytest.mark.parametrize(
    ("candidates", "line"),
    [([row(1, "AWAITED"), row(2, "WAITING"), row(3, "AWAITED")], "  waits:   for {1,3}"),
     ([row(1, "NOT_ALIVE", True), row(2, "NOT_IN_SET")], "  waits:   for {1}"), ([], None)],
    ids=["all lost something", "members are down", "nobody was looked at"],
)  # fmt: skip
def test_an_election_without_a_winner_names_whom_the_set_waits_for(candidates, line) -> None:
    text = explain_text(model([{**REFUSED, "candidates": candidates}]))
    assert [one for one in text.splitlines() if "waits:" in one] == [line] * (line is not None)


def test_no_election_is_said_so() -> None:
    assert explain_text(model([])) == "b: no election has landed"


def test_what_began_before_the_election_has_one_sign() -> None:
    phases = [
        {"since_start_ms": -6, "took_ms": 3, "phase": ("broker 1 started again")},
        {"since_start_ms": 0, "took_ms": 0, "phase": "received"},
    ]
    text = explain_text(model([{**REFUSED, "phases": phases}]))
    assert "    -6 ms  3 ms  broker 1 started again" in text and "    +0 ms  0 ms  received" in text


# -- elections in which no member could simply be chosen, as the fold decides them -----------------


def of_two() -> History:
    """Replica 1 leads {1, 2}; each acknowledges with two members or more."""
    history = with_master(1, 2)
    for broker_id in (1, 2, 3):
        history.register(broker_id, min_in_sync=2)
    return history


def loses_power(history: History, broker_id: int) -> None:
    assert history.register(
        broker_id, f"after{broker_id}", clean=False, last_epoch=1, end_offset=100, min_in_sync=2
    ).accepted


def gone(broker_id: int):
    return seen(broker_id, alive=False, reason="connection_closed")


def told(outcome: Outcome) -> list[str]:
    """The explained election, line by line."""
    won = next(
        (asdict(one) for one in outcome.changes if type(one).__name__ == "MasterElected"), None
    )
    told = {
        **REFUSED,
        "accepted": outcome.accepted,
        "refusal": outcome.refusal,
        "code": outcome.code,
        "result": won,
        "labels": list(outcome.labels),
        "candidates": [asdict(one) for one in outcome.candidates],
    }
    return explain_text(model([told])).splitlines()


def test_who_was_left_out_and_leads_is_said_to_hold_everything() -> None:
    history = of_two()
    history.elect(-1, gone(1), seen(2))
    loses_power(history, 2)
    lines = told(history.elect(-1, seen(1), gone(2)))
    assert lines[0].endswith("[was left out, holds everything]") and "master 1 " in lines[0]
    at = next(
        at
        for at, line in enumerate(lines)
        if line.startswith("  why:     who was chosen had been left out of the set")
    )
    assert lines[at + 1] == "           broker 2 may have lost messages that it had acknowledged"


def test_a_set_that_waits_says_for_whom() -> None:
    history = of_two()
    for broker_id in (1, 2):
        loses_power(history, broker_id)
    lines = told(history.elect(-1, seen(1, incarnation="after1"), gone(2)))
    assert "refused" in lines[0]
    assert (
        "  why:     each of the brokers 1, 2 may have lost messages that it had acknowledged"
    ) in lines
    table = "\n".join(lines[-5:])
    assert lines[-1] == "  waits:   for {2}"
    assert (
        VERDICT_WORDS["WAITING"] in table
        and VERDICT_WORDS["AWAITED"] in table
        and "WAIT" not in table
    )


@pytest.mark.parametrize("waits_in_vain", [False, True])
def test_an_election_at_risk_says_what_was_compared_and_who_never_came(waits_in_vain: bool) -> None:
    history = of_two()
    for broker_id in (1, 2):
        loses_power(history, broker_id)
    other = gone(2) if waits_in_vain else seen(2, incarnation="after2", offset=1_500)
    if waits_in_vain:
        assert history.setting("atRiskWaitMs", "60000").accepted
    lines = told(
        history.elect(
            -1, seen(1, incarnation="after1"), other, waited_ms=60_000 if waits_in_vain else None
        )
    )
    assert (
        lines[0].endswith("[messages may be missing]")
        and f"master {1 if waits_in_vain else 2} " in lines[0]
    )
    assert any(
        line.startswith("  why:     nobody who could lead was known to hold all") for line in lines
    )
    in_vain = "           broker 2 was waited for until the time for it had passed"
    assert (in_vain in lines) is waits_in_vain


def test_an_election_among_sound_members_needs_no_why() -> None:
    history = of_two()
    assert not [line for line in told(history.elect(-1, gone(1), seen(2))) if "why:" in line]
