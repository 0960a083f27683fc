"""Running sets without controllers as steps of a demo and a restart see them: who leads, who acts,
who is behind; kill and start.

Refuses to know which step does what and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.cluster import acting_view
from infra.cluster.plan import ACTING_SETS
from infra.cluster.running import DemoCluster
from infra.processes import status as process_status

ASK_WITHIN_S = 30.0
TOLD_IN_TIME_MS = 2_000


def whole(one: Mapping[str, Any], size: int) -> bool:
    """Of a set as `sets` has it, with so many brokers. Which ids they have is not asked: a set that
    was adopted by controllers has those that they gave, and all of them have to be in sync.
    """
    members = one["members"]
    return (
        one["master"] is not None
        and one["acting"] is None
        and len(members) == size
        and all(member["registered"] and not member["waits_for"] for member in members)
        and all(member["in_sync"] is not False for member in members)
    )


def set_of(name: str) -> str:
    """The set of a broker, by the name of its process."""
    return name.rpartition("-")[0]


class ActingCluster(DemoCluster):
    """Questions to and blows at such a cluster."""

    @property
    def name_servers(self) -> list[str]:
        return list(self.folder.running_cluster()["name_servers"])

    def broker(self, broker_set: str, broker_id: int) -> dict[str, Any]:
        """The process of that replica, as the supervisor has it now."""
        name = f"{broker_set}-{broker_id}"
        return next(one for one in self.processes("broker") if one["name"] == name)

    def leads(self, broker_set: str, topic: str) -> tuple[str | None, bool]:
        """(who stands in the master's place for clients of that topic, whether it takes sends)."""
        route = acting_view.ask_routes(self.name_servers, topic).get(broker_set)
        return (None, False) if route is None else (route.master, route.is_writable)

    def sets(self) -> dict[str, dict[str, Any]]:
        """As `regent status` has them."""
        seen = self._seen()
        members = acting_view.ask_members(self.name_servers, ACTING_SETS)
        return acting_view.sets_of(seen, members)

    def _seen(self) -> list[dict[str, Any]]:
        """Every broker's process with what it says of itself, None where it does not answer."""
        brokers = self.processes("broker")
        answers = process_status.ask_all(
            [one["status_address"] for one in brokers], TOLD_IN_TIME_MS
        )
        return [{**one, "status": answers[one["status_address"]]} for one in brokers]

    def is_whole(self, broker_set: str) -> bool:
        """Its master leads, every slave follows, and nobody acts or is still on its way back."""
        return whole(self.sets()[broker_set], self._size_of(broker_set))

    def master_of(self, broker_set: str) -> str | None:
        """The name of the process that leads it; None while nobody does."""
        one = self.sets()[broker_set]
        found = (member for member in one["members"] if member["address"] == one["master"])
        return next((str(member["name"]) for member in found), None)

    def is_led(self, broker_set: str) -> bool:
        """Controllers adopted it."""
        members = self.sets()[broker_set]["members"]
        return any(member["in_sync"] is not None for member in members)

    def _size_of(self, broker_set: str) -> int:
        return sum(set_of(one["name"]) == broker_set for one in self.processes("broker"))

    def knows_all_topics(self) -> bool:
        """Every slave has copied its master's topics: it serves none that it does not know."""
        counts: dict[str, set[int]] = {}
        for status in (one["status"] for one in self._seen()):
            if status is None:
                return False
            counts.setdefault(status["broker_name"], set()).add(status["topics"])
        return all(len(found) == 1 for found in counts.values())

    def kill_and_hold(self, name: str) -> None:
        """`kill -9`, and nobody takes its place."""
        self.folder.ask({"action": "kill", "name": name}, ASK_WITHIN_S)

    def start(self, name: str) -> None:
        """Start again what was held."""
        self.folder.ask({"action": "start", "name": name}, ASK_WITHIN_S)
