"""The document of the demo of a set that replicates by majority as a person reads it, and the
verdict. Pure: takes the document, gives lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.demo.report import last_words, message_lines, wrong_messages

Document = Mapping[str, Any]
KINDS = ("killed", "paused", "alone", "emptied", "all")
"""Every blow of a run that came to its end."""


def verdict(document: Document) -> list[str]:
    """Why the run is not good, one line each; empty when it is."""
    wrong = list(document.get("problems", ()))
    if "messages" not in document or "logs" not in document:
        return wrong or ["the run did not come to its end"]
    done = {one["kind"] for one in document["steps"]}
    wrong += [f"no member was {kind}" for kind in KINDS if kind not in done]
    wrong += wrong_messages(document["messages"])
    logs = document["logs"]
    if logs["first_difference"] is not None:
        wrong.append(f"the members' logs differ at entry {logs['first_difference']}")
    elif not logs["entries"]:
        wrong.append("no entry was compared")
    return wrong


def render(document: Document) -> list[str]:
    """The report."""
    lines = ["", "What happened", *(f"  {step_line(one)}" for one in document.get("steps", ()))]
    if document.get("messages"):
        lines += ["", *message_lines(document["messages"], document.get("load", {}))]
    if document.get("logs"):
        lines.append(_log_line(document["logs"]))
    kept = "nothing acknowledged was lost, and the members' logs are one"
    return [*lines, "", *last_words(document, verdict(document), kept)]


def _log_line(logs: Document) -> str:
    names = ", ".join(logs["replicas"])
    if logs["first_difference"] is not None:
        return f"Logs of {names}: DIFFER at entry {logs['first_difference']}"
    return (
        f"Logs of {names}: {logs['entries']} entries of {logs['terms']} terms, equal by index, "
        "term and checksum"
    )


def step_line(one: Document) -> str:
    """One step."""
    if one["kind"] == "emptied":
        return (
            f"{one['step']}: {one['emptied']} lost its disk, copied "
            f"{one['copied_bytes'] / 1e6:.1f} MB and follows after {one['whole_s']:.1f} s; outages "
            f"seen by the producer: {one['outages']}"
        )
    outage = one["outage"]
    rto = (
        f"RTO {outage['rto_ms'] / 1000:.2f} s ({outage['failed_calls']} failed calls)"
        if outage
        else "no failed call"
    )
    text = (
        f"{one['step']}: leader {one['leader_before']} → {one['leader_after']}, term "
        f"{one['term_before']} → {one['term_after']}; {rto}; all follow after {one['whole_s']:.1f} "
        "s"
    )
    if one["kind"] == "alone":
        text += (
            f"; {one['alone_bytes']} bytes were on {one['leader_before']} alone, acknowledged to "
            "nobody"
        )
    return text
