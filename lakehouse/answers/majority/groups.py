"""Which sets replicate by majority, and who is in them, as far as broker events tell.

Responsible for finding the events of such groups. Refuses to know what follows from them
(`gold.majority_terms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import NotLanded
from lakehouse.gold.acting_story import Told
from lakehouse.gold.majority_terms import GROUP_KINDS, OF_GROUPS, by_group
from lakehouse.tables.delta import Filters, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """What was told of one. Times in ms since 1970-01-01 UTC."""

    until_ms: int
    """When it was heard of last."""
    members: tuple[str, ...]
    """Ids of all members, as a leader told them; of those that reported, where none did."""
    heard_ms: dict[str, int]
    """When each member was heard of last; who never told anything is not in it."""


def group_names(lake: Lake) -> list[str]:
    """Of all groups that anything has landed of."""
    return sorted(
        {row["broker_name"] for kind in OF_GROUPS for row in _rows(lake, kind, (), NAMES)}
    )


def is_group(lake: Lake, broker_name: str) -> bool:
    """Whether it is such a group."""
    named: Filters = [("broker_name", "=", broker_name)]
    return any(_rows(lake, kind, named, NAMES) for kind in OF_GROUPS)


def told_of_group(lake: Lake, broker_name: str) -> list[Told]:
    """All that was told of a group, each event once, ascending by time; empty when nothing was that
    only such groups tell.
    """
    named: Filters = [("broker_name", "=", broker_name)]
    events = {kind: _rows(lake, kind, named) for kind in GROUP_KINDS}
    return by_group(events).get(broker_name, [])


def known_group(told: Sequence[Told]) -> KnownGroup | None:
    """What these events say of their group; None without any."""
    if not told:
        return None
    heard_ms: dict[str, int] = {}
    members: tuple[str, ...] = ()
    for one in told:
        if "member_id" in one.row:
            heard_ms[one.row["member_id"]] = one.at_ms
        members = tuple(one.row.get("members", ())) or members
    return KnownGroup(told[-1].at_ms, members or tuple(sorted(heard_ms)), heard_ms)


NAMES = ("broker_name",)


def _rows(
    lake: Lake, kind: str, filters: Filters, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    try:
        found = read(lake, BY_NAME[f"silver/{kind}"], columns=columns, filters=filters)
    except NotLanded:  # By an older release, which did not know the kind.
        return []
    return list(found.to_pylist())
