"""Decisions and broker events of one set, arranged so that what is asked about one election costs
what its answer holds.

Responsible for the state of the set between two decisions, for when it was whole again, and for
events by epoch and by time: a set may have thousands of elections, and each is asked about. Refuses
to know where rows come from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.tables.specs import EPOCH_COLUMNS

Row = dict[str, Any]
NOTHING_DECIDED: Mapping[str, Any] = {
    "master_broker_id": None,
    "master_epoch": 0,
    "sync_state_set": [],
}


class Decisions:
    """Rows of `silver/decisions`, ascending by command, each with its changes read once.

    Invariants: `_before[i]` holds after all changes of the rows below `i`.
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows = rows
        self._offsets = [row["command_offset"] for row in rows]
        self._changes = [wording.changes_of(row["changes"]) for row in rows]
        self._before = [NOTHING_DECIDED]
        for changes in self._changes:
            state = self._before[-1]
            for change in changes:
                state = _after(state, change)
            self._before.append(state)

    def before(self, offset: int) -> dict[str, Any]:
        """Mastership and SyncStateSet as they were before the command at that offset."""
        return dict(self._before[bisect_left(self._offsets, offset)])

    def whole_again(self, election: Row) -> Row | None:
        """The decision by which the set had all replicas again that the election looked at; None if
        not before the next election.
        """
        everyone = {candidate["broker_id"] for candidate in election["candidates"]}
        for at in range(bisect_left(self._offsets, election["command_offset"]), len(self.rows)):
            for change in self._changes[at]:
                if (
                    change["kind"] == "MasterElected"
                    and change["master_epoch"] > election["master_epoch"]
                ):
                    return None
                if change["kind"] in ("MasterElected", "SyncStateSetAltered") and everyone <= set(
                    change["sync_state_set"]
                ):
                    return self.rows[at]
        return None


def _after(state: Mapping[str, Any], change: Mapping[str, Any]) -> Mapping[str, Any]:
    match change["kind"]:
        case "MasterElected" | "BrokerSetImported":
            return {name: change[name] for name in NOTHING_DECIDED}
        case "MasterCleared":
            return {**state, "master_broker_id": None}
        case "SyncStateSetAltered":
            return {**state, "sync_state_set": change["sync_state_set"]}
    return state


class Events:
    """Rows of silver tables of broker events, by the table's name without its layer, in the order
    of landing.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]] | None = None) -> None:
        self.rows = rows or {}
        self._by_epoch: dict[tuple[str, int], list[Row]] = {}
        self._by_time = {name: sorted(found, key=_at_ms) for name, found in self.rows.items()}
        for name, column in EPOCH_COLUMNS.items():
            for row in self.rows.get(name, ()):
                self._by_epoch.setdefault((name, row[column]), []).append(row)

    def of_epoch(self, name: str, epoch: int) -> list[Row]:
        """Those that say that they are of this epoch, in the order of landing."""
        return self._by_epoch.get((name, epoch), [])

    def in_time(self, name: str, first_ms: int, end_ms: int) -> list[Row]:
        """Those from `first_ms` up to, not including, `end_ms`, ascending by time."""
        rows = self._by_time.get(name, [])
        return rows[bisect_left(rows, first_ms, key=_at_ms) : bisect_left(rows, end_ms, key=_at_ms)]


def _at_ms(row: Row) -> int:
    return int(row["at_ms"])
