"""What brokers say of their own stores: damage, messages that no queue shows, what a start passed
over.

Responsible for: which of these is a finding, and the way out. Refuses to know: how a broker finds
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.doctor.findings import FAIL, OK, WARN, Finding
from infra.processes import status as process_status

AREA = "stores"


def check(brokers: Mapping[str, str]) -> list[Finding]:
    """`brokers`: name -> address. Those that do not answer, as Java's, say nothing here."""
    answers = process_status.ask_all(brokers.values(), sets=False)
    told = {
        name: answer
        for name, address in brokers.items()
        if (answer := answers[address]) is not None and "records_damaged" in answer
    }
    findings = [one for name, answer in told.items() for one in told_by(name, answer)]
    if told and not findings:
        findings.append(
            Finding(AREA, OK, f"{len(told)} broker(s) know of no damage in their stores")
        )
    return findings


def refusals(name: str, status: Mapping[str, Any]) -> list[Finding]:
    """Why a broker takes no messages now. A slave's replica refuses sends as it should: it passes
    them on.
    """
    findings = []
    if (disk := status.get("store_refusal")) is not None:
        findings.append(
            Finding(
                AREA,
                FAIL,
                f"{name} takes no messages onto its disk: {disk}",
                "Make room, or look at the disk; the broker's log says since when.",
            )
        )
    elif status.get("role") == "MASTER" and (reason := status.get("write_refusal")) is not None:
        broker_set = status.get("broker_name")
        findings.append(
            Finding(
                AREA,
                FAIL,
                f"{name} is master and refuses sends: {reason}",
                f"'regent controller set {broker_set}' names the replicas that are not in sync: "
                "start them, or see their logs.",
            )
        )
    return findings


def told_by(name: str, status: Mapping[str, Any]) -> list[Finding]:
    """Of one broker."""
    findings = refusals(name, status)
    if damaged := status["records_damaged"]:
        way_out = (
            "They are fetched once another member that has them runs; the broker's log and its "
            "RecordRefused events name them."
        )
        findings.append(
            Finding(
                AREA,
                FAIL,
                f"{name} holds {damaged} damaged message(s), which are not served",
                way_out,
            )
        )
    if taken := status.get("slots_taken"):
        way_out = (
            "Two masters gave the same queue offsets. Read the messages from its log ('is taken by "
            "another one') and send them again."
        )
        findings.append(
            Finding(
                AREA,
                FAIL,
                f"{name} has {taken} message(s) that no queue shows: another message has the "
                "place of each",
                way_out,
            )
        )
    if behind := status.get("queue_ends_behind"):
        text = (
            f"{name} has seen more of {behind} queue(s) than its master, which gives their queue "
            "offsets a second time"
        )
        way_out = (
            f"Let this replica lead: regent controller transfer {status.get('broker_name')} "
            f"{status.get('broker_id')}"
        )
        findings.append(Finding(AREA, FAIL, text, way_out))
    if passed := status.get("start_passed_over"):
        way_out = (
            "Damage in bytes that had been written: look at its disk. What other members have is "
            "put back by itself."
        )
        findings.append(
            Finding(
                AREA, WARN, f"{name}'s last start passed over {passed} damaged record(s)", way_out
            )
        )
    return findings
