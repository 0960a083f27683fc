"""What each replica of a set was over time: master, in the set, catching up, down.

Responsible for telling a replica that is down from one that catches up, as far as decisions say it.
Refuses to guess: a replica outside the set of which no decision says more is `OUT_OF_SET`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse.gold.acting_story import MASTER_ID
from lakehouse.gold.spans import Stretch as Span
from lakehouse.gold.spans import without

Row = Mapping[str, Any]
Stretch = dict[str, Any]

MASTER, IN_SET, OUT_OF_SET, UNREGISTERED = (
    "master",
    "in the set",
    "not in the set",
    "not registered",
)
CATCHING_UP, DOWN = "catching up", "down"
ACTING = "acting for the master"
ALIVE = "alive, there is no master to follow"
RESTARTED = "it came back as a new process; nobody told when it died"
ROLES = (MASTER, ACTING, IN_SET, CATCHING_UP, OUT_OF_SET, DOWN, UNREGISTERED)


def span(row: Row, until_ms: int) -> Stretch:
    """From when to when a row holds; what still holds reaches up to `until_ms`."""
    return {"from_ms": row["from_ms"], "to_ms": until_ms if row["to_ms"] is None else row["to_ms"]}


def replica_lanes(
    states: Iterable[Row], elections: Iterable[Row], until_ms: int
) -> list[dict[str, Any]]:
    """The stretches of each replica, by broker id. States and elections come in log order.

    An election says who was alive. A new incarnation says that its replica was down before, and is
    alive now.
    """
    lanes: dict[int, _Lane] = {}
    waiting = list(elections)
    for row in states:
        end = row["to_offset"]
        inside = [one for one in waiting if end is None or one["offset"] < end]
        waiting = waiting[len(inside) :]
        for replica in row["replicas"]:
            lane = lanes.setdefault(replica["broker_id"], _Lane(replica["broker_id"]))
            lane.live(row, replica, inside, span(row, until_ms))
    return [lanes[broker_id].drawn() for broker_id in sorted(lanes)]


def acting_lanes(
    periods: Sequence[Row], fixed: Sequence[Span], away: Sequence[Span], until_ms: int
) -> list[dict[str, Any]]:
    """The same of a set without controllers, from rows of `gold/acting_periods`: the master where
    it is there, and each slave while it acts. `fixed`: when the set had fixed ids, none if it never
    had; `away`: when it had no master.
    """
    if not fixed:
        return []
    led = without(fixed, away)
    lanes = {MASTER_ID: [_stretch(*one, MASTER) for one in led]}
    addresses = {MASTER_ID: ""}
    for row in sorted(periods, key=lambda one: one["since_ms"]):
        end = until_ms if row["until_ms"] is None else min(row["until_ms"], until_ms)
        addresses[row["broker_id"]] = row["address"]
        lanes.setdefault(row["broker_id"], []).append(
            _stretch(row["since_ms"], end, ACTING, row["why_begun"])
        )
    return [
        {
            "broker_id": broker_id,
            "address": addresses[broker_id],
            "stretches": [one for one in lanes[broker_id] if one["from_ms"] < one["to_ms"]],
        }
        for broker_id in sorted(lanes)
    ]


def leader_lanes(terms: Sequence[Row], until_ms: int) -> list[dict[str, Any]]:
    """The same of a group that replicates by majority, from rows of `gold/majority_terms`: each
    member where it led, by its number; of the others nothing is known but that they voted.
    """
    lanes: dict[int, dict[str, Any]] = {}
    for row in sorted(terms, key=lambda one: int(one["term"])):
        if row["broker_id"] is None:
            continue
        end = until_ms if row["until_ms"] is None else min(row["until_ms"], until_ms)
        lane = lanes.setdefault(
            row["broker_id"],
            {"broker_id": row["broker_id"], "address": row["leader_id"], "stretches": []},
        )
        if row["since_ms"] < end:
            one = _stretch(row["since_ms"], end, MASTER, row["why_begun"])
            lane["stretches"].append({**one, "epoch": row["term"]})
    return [lanes[number] for number in sorted(lanes)]


def _stretch(from_ms: int, to_ms: int, role: str, why: str = "") -> Stretch:
    return {"from_ms": from_ms, "to_ms": to_ms, "role": role, "epoch": None, "why": why}


class _Lane:
    """One replica, state after state."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._address = ""
        self._incarnation: str | None = None
        self._alive: bool | None = None
        self._stretches: list[Stretch] = []

    def live(self, row: Row, replica: Row, elections: Sequence[Row], lasts: Stretch) -> None:
        """The replica in a state; elections that left the state as it was cut it in two."""
        self._address = replica["address"]
        self._restarted(replica["incarnation"])
        begin_ms = lasts["from_ms"]
        for one in elections:
            known = _alive(one, self._broker_id)
            if known is None:
                continue
            if one["offset"] > row["from_offset"] and one["at_ms"] > begin_ms:
                self._add(row, replica, begin_ms, one["at_ms"])
                begin_ms = one["at_ms"]
            self._alive = known
        self._add(row, replica, begin_ms, lasts["to_ms"])

    def drawn(self) -> dict[str, Any]:
        """Stretches that say the same of the same mastership are one."""
        joined: list[Stretch] = []
        for one in self._stretches:
            _extend(joined, one)
        return {"broker_id": self._broker_id, "address": self._address, "stretches": joined}

    def _restarted(self, incarnation: str | None) -> None:
        if incarnation == self._incarnation:
            return
        if self._incarnation is not None:
            for one in reversed(self._stretches):
                if one["role"] != OUT_OF_SET or one["why"]:
                    break
                one.update(role=DOWN, why=RESTARTED)
        self._incarnation, self._alive = incarnation, True

    def _add(self, row: Row, replica: Row, from_ms: int, to_ms: int) -> None:
        role = self._role(row, replica)
        if role in (MASTER, IN_SET):
            self._alive = None
        self._stretches.append(
            {
                "from_ms": from_ms,
                "to_ms": to_ms,
                "role": role,
                "epoch": row["master_epoch"],
                "why": ALIVE if self._alive and role == OUT_OF_SET else "",
            }
        )

    def _role(self, row: Row, replica: Row) -> str:
        if replica["broker_id"] == row["master_broker_id"]:
            return MASTER
        if self._alive is False and row["master_broker_id"] is None:
            return DOWN  # It may be all that is left of the set: the lane of sets says that.
        if replica["broker_id"] in row["sync_state_set"]:
            return IN_SET
        if not replica["is_registered"]:
            return UNREGISTERED
        if self._alive is False:
            return DOWN
        follows = self._alive and row["master_broker_id"] is not None
        return CATCHING_UP if follows else OUT_OF_SET


def _alive(election: Row, broker_id: int) -> bool | None:
    """What an election says of a replica; None when it says nothing."""
    said = (one["alive"] for one in election["evidence"] if one["broker_id"] == broker_id)
    return next(said, None)


def _extend(stretches: list[Stretch], new: Stretch) -> None:
    """The last stretch goes on when the new one says the same of the same mastership, else the new
    one begins.
    """
    last = stretches[-1] if stretches else None
    same = (
        last is not None
        and last["to_ms"] == new["from_ms"]
        and (last["role"], last["why"]) == (new["role"], new["why"])
    )
    if last is not None and same and (new["role"] != MASTER or last["epoch"] == new["epoch"]):
        last["to_ms"] = new["to_ms"]
    else:
        stretches.append(new)
