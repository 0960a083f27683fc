"""A running set that replicates by majority, as steps of a demo and a restart see it: who leads,
who follows; kill and start.

Refuses to know which step does what and why.
"""

from __future__ import annotations

from typing import Any

from infra.cluster import majority_view
from infra.cluster.plan import BROKER_SET
from infra.cluster.running import DemoCluster
from infra.processes import status as process_status

ASK_WITHIN_S = 30.0
TOLD_IN_TIME_MS = 1_000


class MajorityCluster(DemoCluster):
    """Questions to and blows at such a cluster."""

    def look(self) -> dict[str, Any]:
        """The set, as `regent status` has it."""
        brokers = self.processes("broker")
        answers = process_status.ask_all(
            [one["status_address"] for one in brokers], TOLD_IN_TIME_MS
        )
        seen = [{**one, "status": answers[one["status_address"]]} for one in brokers]
        return majority_view.sets_of(seen)[BROKER_SET]

    def is_whole(self) -> bool:
        """See `majority_view.is_whole`."""
        return majority_view.is_whole(self.look())

    def broker(self, name: str) -> dict[str, Any]:
        """That process, as the supervisor has it now."""
        return next(one for one in self.processes("broker") if one["name"] == name)

    def kill_and_hold(self, name: str) -> None:
        """`kill -9`, and nobody takes its place."""
        self.folder.ask({"action": "kill", "name": name}, ASK_WITHIN_S)

    def start(self, name: str) -> None:
        """Start again what was held."""
        self.folder.ask({"action": "start", "name": name}, ASK_WITHIN_S)
