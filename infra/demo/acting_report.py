"""The document of the demo of sets without controllers as a person reads it, and the verdict. Pure:
takes the document, gives lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.demo.report import failed_commands, last_words

Document = Mapping[str, Any]

WINDOW_MS = 10_000
"""What was done within a change, or so long before it, may be done again: slaves copy places every
3 s (metadata_sync_ms), and a set may have two that deliver for as long as name servers wait for a
silent broker (broker_not_active_ms; PROTOCOL 7.2).
"""


def verdict(document: Document) -> list[str]:
    """Why the run is not good, one line each; empty when it is."""
    wrong = list(document.get("problems", ()))
    if "applications" not in document or "history" not in document:
        return wrong or ["the run did not come to its end"]
    for step in document["steps"]:
        wrong += _step_wrong(step)
    for one in document["applications"]:
        wrong += _application_wrong(one)
    wrong += [
        f"the logs of {one['set']} differ at offset {one['first_difference']}"
        for one in document["logs"]
        if not one["equal"]
    ]
    return wrong + _history_wrong(document["history"])


def _step_wrong(step: Document) -> list[str]:
    if step["kind"] == "away" and not step["read_from_slave"]:
        return [f"nothing was read from {step['acts']} while it acted"]
    if step["kind"] == "returned" and not step["takes_over"]:
        text = (
            f"{step['started']} does not know the places that were committed without it: "
            f"{step['places_found']}, committed {step['places_kept']}"
        )
        return [text]
    return []


def _application_wrong(one: Document) -> list[str]:
    """What was promised of one application and is not so."""
    name, wrong = one["what"], []
    for key, text in (
        ("lost", "acknowledged and lost"),
        ("early", "there before their time"),
        ("unhit", "there twice although nobody was hit between"),
    ):
        if one[key]:
            wrong.append(f"{name}: {one[key]} {text}")
    wrong += [f"{name}: {text}" for text in one["wrong"][:3]]
    if not one["acknowledged"]:
        wrong.append(f"{name}: nothing was acknowledged")
    if one["crossed"] == 0:
        wrong.append(f"{name}: nothing that was due came through the other set")
    gap_ms = one["twice_before_blow_ms_max"] or 0
    if gap_ms > WINDOW_MS:
        wrong.append(
            f"{name}: done {gap_ms / 1000:.1f} s before a change, and done "
            f"again; {WINDOW_MS / 1000:.0f} s at most is promised"
        )
    return wrong


def _history_wrong(history: Document) -> list[str]:
    return [*(f"history: {text}" for text in history["missing"]), *failed_commands(history)]


def render(document: Document) -> list[str]:
    """The report, without what the commands of step 5 printed."""
    lines = ["", "What happened", *(f"  {step_line(one)}" for one in document["steps"])]
    if document.get("applications"):
        lines += ["", "What became of the messages"]
        lines += [f"  {application_line(one)}" for one in document["applications"]]
    lines += [
        f"Logs of {one['set']}: "
        + (
            f"equal, {one['bytes'] / 1e6:.1f} MB compared byte for byte"
            if one["equal"]
            else "differ"
        )
        for one in document.get("logs", ())
    ]
    for one in document.get("history", {}).get("periods", ()):
        lines.append(f"History: {period_line(one)}")
    return [*lines, "", *verdict_lines(document)]


def verdict_lines(document: Document) -> list[str]:
    """The last words."""
    kept = (
        "a slave acted, what was due came through the other set, nothing was lost or done twice "
        f"beyond {WINDOW_MS / 1000:.0f} s of a change"
    )
    return last_words(document, verdict(document), kept)


def step_line(one: Document) -> str:
    """One step."""
    if one["kind"] == "away":
        return (
            f"{one['step']}: {one['killed']} killed, {one['acts']} stands in its place for reading "
            f"after {one['acting_route_s']:.1f} s, {one['read_from_slave']} orders read there; "
            f"{one['set']} without its master for {one['away_s']:.0f} s"
        )
    if one["kind"] == "returned":
        return (
            f"{one['step']}: {one['started']} takes sends after {one['writable_s']:.1f} s, "
            f"{one['set']} whole after {one['whole_s']:.1f} s; places committed without it: "
            f"{'taken over' if one['takes_over'] else 'LOST'}"
        )
    return (
        f"{one['step']}: {one['killed']} killed and started anew by its supervisor, takes sends "
        f"after {one['writable_s']:.1f} s"
    )


def application_line(one: Document) -> str:
    """One application: what was promised, and what is so."""
    late = one["late_ms_max"]
    text = (
        f"{one['what']}: {one['acknowledged']} acknowledged, {one['lost']} lost, {one['early']} "
        f"early, {one['twice']} twice"
    )
    if one["twice"]:
        text += f" (first up to {one['twice_before_blow_ms_max'] / 1000:.1f} s before a change)"
    if late is not None:
        median_s = one["late_ms_median"] / 1000
        text += f", late by {median_s:.1f} s in the median, {late / 1000:.1f} s at most"
    if one["crossed"] is not None:
        text += f"; {one['crossed']} came through the other set"
    return f"{text}, {one['note']}" if one["note"] else text


def period_line(one: Document) -> str:
    """One time that a slave acted."""
    since_ms, until_ms, back_ms = one["since_ms"], one["until_ms"], one["master_back_ms"]
    over = "and still does" if until_ms is None else f"for {(until_ms - since_ms) / 1000:.1f} s"
    back = (
        ""
        if back_ms is None
        else f", its master was online {(back_ms - since_ms) / 1000:.1f} s after it began"
    )
    return (
        f"broker {one['broker_id']} of {one['broker_name']} acted {over}{back}; {one['messages']} "
        "messages left the set"
    )
