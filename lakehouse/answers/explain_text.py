"""An explained election as a person reads it.

Responsible for words and layout; refuses to know where the model came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from events.outcomes import LABEL_AT_RISK, LABEL_REMEMBERED
from lakehouse import wording
from lakehouse.answers.acting.changeovers import changeover_text
from lakehouse.answers.acting.periods import NOBODY_ELECTS, period_text
from lakehouse.answers.decisions import result_text
from lakehouse.answers.majority.terms import MEMBERS_ELECT, term_text

VERDICT_WORDS: Mapping[str, str] = {
    "CHOSEN": "chosen",
    "NOT_ALIVE": "refused: the evidence does not call it alive",
    "STALE_INCARNATION": "refused: the evidence is about an earlier start of it",
    "POSITION_NOT_SHOWN": "refused: it started anew and has not shown yet whether its log is whole",
    "NOT_IN_SET": "refused: not in the SyncStateSet",
    "UNCLEAN": "refused: it may have lost bytes that it had acknowledged",
    "WAITING": "would stand, but others are waited for",
    "AWAITED": "waited for: it may hold what the others have lost",
    "WAIT_OVER": "did not come back, and the time to wait for it (atRiskWaitMs) had passed",
    "LOWER_PRIORITY": "refused: its election priority comes later",
    "LOWER_EPOCH": "refused: its log ends in an earlier epoch",
    "LOWER_OFFSET": "refused: its log is shorter",
    "HIGHER_ID": "refused: equal otherwise, and its id is higher",
    "NOT_DESIGNATED": "refused: the operator named another",
    "NOT_REGISTERED": "refused: it never registered",
    "NOT_ASKING": "refused: before the first election whoever asks may have it",
    "MASTER_KEPT": "stays: it is master and alive",
    "NOT_NEEDED": "not needed: the master stays",
    "NOT_CONSIDERED": "not considered: the command was refused before",
}


def explain_text(model: Mapping[str, Any]) -> str:
    """All elections, acting periods and changeovers of the model by time, one paragraph each."""
    name = model["broker_name"]
    if "by_majority" in model:
        terms = [term_text(name, one) for one in model["terms"]]
        return "\n\n".join([f"{name} {MEMBERS_ELECT}", *terms])
    told = [(one["at_ms"], _election_text(name, one)) for one in model["elections"]]
    told += [(one["at_ms"], period_text(name, one)) for one in model["acting_periods"]]
    told += [(one["at_ms"], changeover_text(name, one)) for one in model["changeovers"]]
    blocks = [text for _, text in sorted(told, key=lambda one: one[0])]
    if model["without_controllers"]:
        none = [] if blocks else ["no slave has acted yet, as far as was told"]
        return "\n\n".join([f"{name} {NOBODY_ELECTS}", *blocks, *none])
    return "\n\n".join(blocks) or f"{name}: no election has landed"


def _election_text(broker_name: str, election: Mapping[str, Any]) -> str:
    lines = [_headline(broker_name, election), *_reason_lines(election), *_why_lines(election)]
    if election["request"]:
        lines += _evidence_lines(election["request"]["evidence"])
    if election["candidates"]:
        lines += _candidate_lines(election["candidates"])
        lines += _wait_lines(election)
    lines += wording.phase_lines(
        (one["since_start_ms"], one["took_ms"], one["phase"]) for one in election["phases"]
    )
    lines += _client_lines(election["clients"])
    return "\n".join(lines)


def _headline(broker_name: str, election: Mapping[str, Any]) -> str:
    when = wording.moment(election["at_ms"])
    result = election["result"]
    if result is None:
        return (
            f"{broker_name}: election {result_text(election)} at offset {election['offset']}, "
            f"{when}"
        )
    return (
        f"{broker_name}: epoch {result['master_epoch']} began at offset {election['offset']}, "
        f"{when}: master {result['master_broker_id']} ({result['master_address']}), set "
        f"{wording.members(result['sync_state_set'])} epoch {result['sync_state_set_epoch']}  "
        f"{wording.labels(election['labels'])}"
    ).rstrip()


def _reason_lines(election: Mapping[str, Any]) -> list[str]:
    previous = election["previous"]
    before = "no master"
    if previous["master_broker_id"] is not None:
        before = f"master {previous['master_broker_id']} in epoch {previous['master_epoch']}"
    lines = [
        f"  before:  {before}, set {wording.members(previous['sync_state_set'])}",
        (
            f"  cause:   {election['cause'] or '-'}; decided in term {election['term']}, "
            f"published by {election['decided_by'] or '-'}"
        ),
    ]
    request = election["request"]
    if request is None:
        return [*lines, "  command: not landed yet"]
    asker = request["requested_by"] or f"controller {request['issuer']} itself"
    expected = [
        f"{words} {request[name]}"
        for name, words in (("expected_master_epoch", "epoch"), ("expected_set_epoch", "set epoch"))
        if request[name] is not None
    ]
    named = f" names broker {request['broker_id']}" if request["designate"] else ""
    lines.append(
        f"  asked:   by {asker}{named}"
        + (f", expecting {' and '.join(expected)}" if expected else "")
    )
    return lines


def _why_lines(election: Mapping[str, Any]) -> list[str]:
    """What is special about an election in which no member could simply be chosen."""
    labels, candidates = election["labels"], election["candidates"]
    given_up = wording.brokers(
        one["broker_id"] for one in candidates if one["verdict"] == "WAIT_OVER"
    )
    told = []
    if LABEL_REMEMBERED in labels:
        told.append(
            "who was chosen had been left out of the set, and nothing was acknowledged without "
            "it: it holds everything"
        )
    if LABEL_AT_RISK in labels:
        told.append(
            "nobody who could lead was known to hold all that was acknowledged; of those compared "
            "the longest log leads"
        )
    if given_up:
        told.append(f"{given_up} was waited for until the time for it had passed")
    lost = wording.brokers(one["broker_id"] for one in candidates if not one["clean"])
    if lost:
        told.append(f"{lost} may have lost messages that it had acknowledged")
    return [
        (f"  {'why:    ' if first else '        '} {text}")
        for first, text in zip([True, *[False] * len(told)], told, strict=False)
    ]


def _evidence_lines(evidence: list[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            item["broker_id"],
            "alive" if item["alive"] else "gone",
            item["reason"],
            wording.duration(item["silent_ms"]) if item["silent_ms"] >= 0 else "-",
            item["epoch"],
            item["max_offset"],
            item["confirm_offset"],
            item["incarnation"] or "-",
        )
        for item in evidence
    ]
    if not rows:
        return ["  evidence: none was needed"]
    head = ("id", "taken for", "because", "silent for", "epoch", "end", "confirmed", "incarnation")
    return ["  evidence:", wording.text_table(head, rows, "    ")]


def _candidate_lines(candidates: list[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            item["broker_id"],
            item["address"] or "-",
            "yes" if item["in_set"] else "no",
            item["epoch"],
            item["max_offset"],
            item["election_priority"],
            VERDICT_WORDS.get(item["verdict"], item["verdict"]),
        )
        for item in candidates
    ]
    head = ("id", "address", "in set", "epoch", "end", "priority", "verdict")
    return ["  candidates:", wording.text_table(head, rows, "    ")]


def _wait_lines(election: Mapping[str, Any]) -> list[str]:
    """Whom a set without a master waits for: former members after a loss of all, else its
    members.
    """
    if election["result"] is not None or election["previous"]["master_broker_id"] is not None:
        return []
    rows = election["candidates"]
    awaited = [row["broker_id"] for row in rows if row["verdict"] == "AWAITED"]
    awaited = awaited or [row["broker_id"] for row in rows if row["in_set"] and not row["alive"]]
    return [f"  waits:   for {wording.members(awaited)}"] if awaited else []


def _client_lines(clients: Mapping[str, Any] | None) -> list[str]:
    if clients is None:
        return []
    acknowledged = wording.duration(clients["acknowledged_again_after_ms"])
    whole = wording.duration(clients["set_whole_after_ms"])
    return [
        (
            f"  clients: a message was acknowledged again after {acknowledged}, set whole again "
            f"after {whole}, {clients['requests_forwarded']} requests forwarded to the master"
        )
    ]
