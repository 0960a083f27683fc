"""The answer to "what if the master died this second?" of a set without controllers: who would act,
how soon that was before, what nobody would do.

Responsible for that model and its words. Refuses to know the rows' tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.answers.acting.periods import NOBODY_ELECTS, no_writes_ms
from lakehouse.answers.acting.sets import KnownSet
from lakehouse.gold.acting_story import MASTER_ID

Row = Mapping[str, Any]
LIMITS = (
    (
        "Who lives is what a name server saw last; without name servers that report (kafka), it is "
        "who ever reported."
    ),
    (
        "A slave acts for readers alone. Nobody writes until the master is back: no forecast can "
        "say when, for nobody is elected."
    ),
    (
        "What is due meanwhile leaves for masters of other sets that take the topic; where there "
        "is none, it waits."
    ),
)
"""What the answer cannot know; it is part of the answer."""


def outlook(broker_name: str, known: KnownSet, periods: Sequence[Row]) -> dict[str, Any]:
    """`periods`: rows of `gold/acting_periods` of the set. Times in ms."""
    acts = next((row for row in periods if row["until_ms"] is None), None)
    living = sorted(known.members or known.broker_ids)
    slaves = [one for one in living if one != MASTER_ID]
    return {
        "broker_name": broker_name,
        "without_controllers": True,
        "at_ms": known.until_ms,
        "members": living,
        "members_ms": known.members_ms,
        "master": MASTER_ID if acts is None and MASTER_ID in living else None,
        "acting": None if acts is None else {k: acts[k] for k in ("broker_id", "since_ms")},
        "succession": [
            {"died": [MASTER_ID, *slaves[:at]], "acts": one} for at, one in enumerate(slaves)
        ],
        "before": _before(periods),
        "limits": list(LIMITS),
    }


def _before(periods: Sequence[Row]) -> dict[str, Any]:
    began = [
        row["since_ms"] - row["master_left_ms"]
        for row in periods
        if row["master_left_ms"] is not None
    ]
    unwritten = [ms for row in periods if (ms := no_writes_ms(row)) is not None]
    return {
        "periods": len(periods),
        "acted_after_ms": _spread(began),
        "no_writes_ms": _spread(unwritten),
        "messages": sum(row["messages"] for row in periods),
    }


def _spread(values: Sequence[int]) -> dict[str, int] | None:
    ordered = sorted(max(0, one) for one in values)
    if not ordered:
        return None
    return {
        "n": len(ordered),
        "median_ms": ordered[(len(ordered) - 1) // 2],
        "longest_ms": ordered[-1],
    }


def outlook_text(model: Row) -> str:
    """For people."""
    lines = [
        f"{model['broker_name']} {NOBODY_ELECTS}",
        (
            f"members {wording.members(model['members'])}, as told last at "
            f"{wording.moment(model['members_ms'] or model['at_ms'])} UTC: {_who_leads(model)}"
        ),
        "",
    ]
    for step in model["succession"]:
        died = " and ".join(f"broker {one}" for one in step["died"])
        lines.append(
            f"if {died} died: broker {step['acts']} would act; clients read from it, nobody writes"
        )
    if not model["succession"]:
        lines.append("if the master died: nobody would act, there is no slave")
    return "\n".join(
        [*lines, "", *_before_lines(model["before"]), "", *(f"* {one}" for one in model["limits"])]
    )


def _who_leads(model: Row) -> str:
    if model["acting"] is not None:
        since = wording.moment(model["acting"]["since_ms"])
        return f"broker {model['acting']['broker_id']} acts for the master since {since}"
    return "the master is there" if model["master"] is not None else "no master is there"


def _before_lines(before: Row) -> list[str]:
    if not before["periods"]:
        return ["no slave of this set has acted yet"]
    lines = [f"before: slaves acted {before['periods']} times, {before['messages']} messages left"]
    for name, words in (
        ("acted_after_ms", "from the master's end until a slave acted"),
        ("no_writes_ms", "without anybody to write to"),
    ):
        if (spread := before[name]) is not None:
            lines.append(
                f"  {words}: median {wording.duration(spread['median_ms'])}, longest "
                f"{wording.duration(spread['longest_ms'])} (of {spread['n']})"
            )
    return lines
