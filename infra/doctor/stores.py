"""What brokers say of their own stores: damage, messages that no queue shows, what a start passed
over.

Responsible for: which of these is a finding, and the way out. Refuses to know: how a broker finds
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well
from infra.processes import status as process_status

Status = Mapping[str, Any]
AREA = "stores"


def ask(brokers: Mapping[str, str]) -> dict[str, Status]:
    """What each broker that answers says of itself; `brokers`: name -> address. Java's do not."""
    answers = process_status.ask_all(brokers.values(), sets=False)
    return {
        name: answer
        for name, address in brokers.items()
        if (answer := answers[address]) is not None and "records_damaged" in answer
    }


def check(answers: Mapping[str, Status], commands: Commands) -> list[Finding]:
    """`answers`: of `ask`."""
    findings = [one for name, answer in answers.items() for one in told_by(name, answer, commands)]
    if answers and not findings:
        findings.append(well(AREA, f"{len(answers)} broker(s) know of no damage in their stores"))
    return findings


def refusals(name: str, status: Status, commands: Commands) -> list[Finding]:
    """Why a broker takes no messages now. A slave's replica refuses sends as it should: it passes
    them on.
    """
    broker_set, leads = str(status.get("broker_name")), status.get("role") == "MASTER"
    if (disk := status.get("store_refusal")) is not None:
        text = f"{name} takes no messages onto its disk: {disk}"
        if leads:
            way_out = "Make room there, or look at the disk; meanwhile let another member lead:"
            return [fail(AREA, text, way_out, commands.controller("transfer", broker_set))]
        way_out = "Make room there, or look at the disk; the set meanwhile:"
        return [fail(AREA, text, way_out, commands.controller("set", broker_set))]
    if leads and (reason := status.get("write_refusal")) is not None:
        text = f"{name} is master and refuses sends: {reason}"
        way_out = "Start the replicas that are not in sync, or see their logs; they are named by:"
        return [fail(AREA, text, way_out, commands.controller("set", broker_set))]
    return []


def told_by(name: str, status: Status, commands: Commands) -> list[Finding]:
    """Of one broker."""
    broker_set = str(status.get("broker_name"))
    look = commands.controller("set", broker_set)
    findings = refusals(name, status, commands)
    if damaged := status["records_damaged"]:
        text = f"{name} holds {damaged} damaged message(s), which are not served"
        way_out = (
            "They are fetched once another member that has them runs (the broker's log and its "
            "RecordRefused events name them). Who runs:"
        )
        findings.append(fail(AREA, text, way_out, look))
    if taken := status.get("slots_taken"):
        text = f"{name} has {taken} message(s) that no queue shows: another message has the place "
        way_out = (
            "Two masters gave the same queue offsets. Read the messages from its log ('is taken by "
            "another one') and send them again. Who led when:"
        )
        led = commands.history("explain", broker_set) if commands.tables else look
        findings.append(fail(AREA, f"{text}of each", way_out, led))
    if behind := status.get("queue_ends_behind"):
        text = (
            f"{name} has seen more of {behind} queue(s) than its master, which gives their queue "
            "offsets a second time"
        )
        transfer = commands.controller("transfer", broker_set, str(status.get("broker_id")))
        findings.append(fail(AREA, text, "Let this replica lead:", transfer))
    if passed := status.get("start_passed_over"):
        text = f"{name}'s last start passed over {passed} damaged record(s)"
        way_out = (
            "Damage in bytes that had been written: look at its disk. What other members have is "
            "put back by itself, while one runs:"
        )
        findings.append(warn(AREA, text, way_out, look))
    return findings
