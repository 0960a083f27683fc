"""The demo's document as a person reads it, and the verdict. Pure: takes the document, gives
lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]


def verdict(document: Document) -> list[str]:
    """Why the run is not good, one line each; empty when it is."""
    messages, replicas = document.get("messages"), document.get("replicas")
    wrong = list(document.get("problems", ()))
    if not messages or not replicas or "history" not in document:
        return wrong or ["the run did not come to its end"]
    wrong += wrong_messages(messages)
    if not replicas["equal"]:
        wrong.append(f"the replicas' logs differ at offset {replicas['first_difference']}")
    wrong += [
        f"in Delta: {one['name']}: {one['found']}, expected at least {one['least']}"
        for one in document["history"]["expected"]
        if not one["ok"]
    ]
    return wrong + failed_commands(document["history"])


def wrong_messages(messages: Document) -> list[str]:
    """What was promised of the messages that were sent, and is not so."""
    wrong = []
    for name, text in (
        ("lost", "acknowledged messages are lost"),
        ("misplaced", "messages are not where the answer said"),
        ("corrupt", "messages were changed"),
        ("out_of_order", "messages are out of order"),
        ("never_sent", "messages were never sent"),
        ("acknowledged_not_consumed", "acknowledged messages never reached the consumer"),
    ):
        if messages[name]:
            wrong.append(f"{messages[name]} {text}")
    if not messages["acknowledged"]:
        wrong.append("nothing was acknowledged")
    return wrong


def failed_commands(history: Document) -> list[str]:
    """Verbs that were asked and ended otherwise than well."""
    return [
        f"'{one['command']}' ended with exit code {one['code']}"
        for one in history["asked"]
        if one["code"]
    ]


def render(document: Document) -> list[str]:
    """The report, without what the commands of step 5 printed."""
    lines = ["", "What happened"]
    for one in document.get("steps", ()):
        lines.append(f"  {step_line(one)}")
        if one.get("phases"):
            lines.append(f"    phases: {phases_text(one['phases'])}")
    if document.get("messages"):
        lines += ["", *message_lines(document["messages"], document.get("load", {}))]
    if document.get("replicas"):
        lines.append(_replica_line(document["replicas"]))
    if document.get("history"):
        found = document["history"]["expected"]
        lines += [
            "",
            (
                f"Outcomes in Delta: {sum(one['ok'] for one in found)} of {len(found)} kinds as "
                "the steps caused them"
            ),
        ]
        lines += [
            (f"  {'ok  ' if one['ok'] else 'MISSING'} {one['name']}: {one['found']}")
            for one in found
        ]
    return [*lines, "", *verdict_lines(document)]


def verdict_lines(document: Document) -> list[str]:
    """The last words."""
    kept = "nothing acknowledged was lost, the replicas are equal, history proves itself"
    return last_words(document, verdict(document), kept)


def last_words(document: Document, wrong: Sequence[str], kept: str) -> list[str]:
    """`kept`: the promises, where nothing is wrong."""
    seconds = f"{document['seconds']:.0f} s" if "seconds" in document else "?"
    if not wrong:
        return [f"GOOD: {kept} ({seconds})."]
    return [f"NOT GOOD ({seconds}):", *(f"  {line}" for line in wrong)]


def phases_text(phases: Sequence[Document]) -> str:
    """Each phase with the time since the blow."""
    return ", ".join(f"{one['phase']} {one['after_ms']:+d} ms" for one in phases)


def step_line(one: Document) -> str:
    text = f"{one['step']}: "
    if one["kind"] == "master":
        outage = one["outage"]
        rto = (
            (f"RTO {outage['rto_ms'] / 1000:.2f} s ({outage['failed_calls']} failed calls)")
            if outage
            else "no failed call"
        )
        return (
            f"{text}{one['killed']} killed, master {one['master_before']} → "
            f"{one['master_after']}, epoch {one['epoch_before']} → {one['epoch_after']}; {rto}; "
            f"set whole again after {one['set_whole_again_s']:.1f} s"
        )
    if one["kind"] == "controller":
        return (
            f"{text}{one['killed']} killed, {one['leader_after']} leads after "
            f"{one['takeover_s']:.2f} s, term {one['term_before']} → {one['term_after']}; outages "
            f"seen by the producer: {one['failed_sends']}"
        )
    if one["kind"] == "empty_replica":
        return (
            f"{text}{one['started']} got id {one['broker_id']}, copied "
            f"{one['copied_bytes'] / 1e6:.1f} MB and is in sync after {one['joined_s']:.1f} s"
        )
    if one["kind"] == "paused_slave":
        outage = one["outage"]
        gap = f"longest gap {outage['rto_ms'] / 1000:.2f} s" if outage else "no failed call"
        return (
            f"{text}{one['paused']} paused, left the SyncStateSet after {one['left_after_s']:.1f} "
            f"s, {one['acknowledged_meanwhile']} acknowledged meanwhile, {gap}; back after "
            f"{one['back_after_s']:.1f} s"
        )
    return f"{text}refused with code {one['code']} {one['remark']}".rstrip()


def message_lines(messages: Document, load: Document) -> list[str]:
    """What became of the messages."""
    latency = ""
    if load.get("latency_p50_ms") is not None:
        latency = (
            f"; acknowledged after {load['latency_p50_ms']:.1f} ms (median), "
            f"{load['latency_p99_ms']:.1f} ms (p99)"
        )
    return [
        (
            f"Messages: {messages['messages']} sent in {messages['calls']} calls, "
            f"{messages['acknowledged']} acknowledged{latency}"
        ),
        (
            f"  lost {messages['lost']}, duplicated {messages['duplicated']} (retries of unknown "
            f"outcome), out of order {messages['out_of_order']}, changed {messages['corrupt']}, "
            f"not where promised {messages['misplaced']}"
        ),
        (
            f"  read back {messages['stored']}; consumed while it happened {messages['consumed']} "
            f"different, of the acknowledged not consumed {messages['acknowledged_not_consumed']}"
        ),
    ]


def _replica_line(replicas: Document) -> str:
    if replicas["equal"]:
        return (
            f"Logs of {len(replicas['replicas'])} replicas: equal, {replicas['bytes'] / 1e6:.1f} "
            f"MB compared byte for byte up to the confirm offset {replicas['to_offset']}"
        )
    return (
        f"Logs of {', '.join(replicas['replicas'])}: NOT equal, first difference at offset "
        f"{replicas['first_difference']}"
    )
