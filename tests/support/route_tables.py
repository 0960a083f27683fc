"""A name server's table and the brokers of one set that come and go there.

Responsible for: registrations in few words, one connection per broker, what the table asks its name
server to tell.
Refuses to know: what is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processors.nameserver.departures import Left
from processors.nameserver.effects import Effect, MembersSeen, MinIdChanged
from processors.nameserver.records import DataVersion, Registered, Registration, TopicQueues
from processors.nameserver.routes import RouteTable

ALL_TOPICS: Mapping[str, int] = {"T": 6, "TBW102": 6}
"""Topic to permission."""


def address_of(broker_id: int) -> str:
    return f"10.0.0.{broker_id}:10911"


class RoutedSet:
    """Set `a` of cluster `C`. A broker's connection has its id plus 100, unless said otherwise."""

    def __init__(self, acting: bool | None = True) -> None:
        self.table = RouteTable()
        self.acting = acting
        self.effects: list[Effect] = []

    # -- what happens ------------------------------------------------------------------------------

    def register(
        self,
        broker_id: int,
        *,
        at: str = "",
        counter: int = 1,
        topics: Mapping[str, int] = ALL_TOPICS,
        state_version: int = 0,
        now_ms: int = 0,
        connection: int = 0,
        drops_absent: bool = False,
        **said: Any,
    ) -> Registered:
        address = at or address_of(broker_id)
        fields: dict[str, Any] = {
            "cluster_name": "C",
            "broker_name": "a",
            "acting_master": self.acting,
            "ha_address": f"{address}-ha",
        }
        registration = Registration(
            broker_id=broker_id,
            address=address,
            version=DataVersion(state_version, counter, 1_000),
            topics={topic: TopicQueues(4, 4, perm) for topic, perm in topics.items()},
            **fields | said,
        )
        found = self.table.register(
            registration, connection or broker_id + 100, now_ms, drops_absent=drops_absent
        )
        self.effects += found.effects
        return found

    def leave(self, *broker_ids: int) -> Left:
        """Their connections close; they go together."""
        found = [
            departure
            for broker_id in broker_ids
            for departure in self.table.connection_closed(broker_id + 100)
        ]
        return self._removed(found)

    def goodbye(
        self, broker_id: int, *, at: str = "", name: str = "a", connection: int = 0
    ) -> Left:
        """104, and what becomes of it."""
        departure = self.table.said_goodbye(
            name, at or address_of(broker_id), connection or broker_id + 100
        )
        return self._removed([] if departure is None else [departure])

    def expire(self, now_ms: int) -> Left:
        return self._removed(self.table.overdue(now_ms))

    def beat(self, broker_id: int, now_ms: int, *, cluster: str = "C", connection: int = 0) -> bool:
        found = self.table.heartbeat(
            cluster, address_of(broker_id), connection or broker_id + 100, now_ms
        )
        return found is not None

    def _removed(self, departures: Any) -> Left:
        left = self.table.remove(departures)
        self.effects += left.effects
        return left

    # -- what is seen ------------------------------------------------------------------------------

    def members(self, name: str = "a") -> dict[int, str]:
        group: Any = self.table.member_group("C", name)["brokerMemberGroup"]
        return dict(group["brokerAddrs"])

    def ids(self, name: str = "a") -> list[int]:
        return sorted(self.members(name))

    def perm(self, topic: str = "T") -> int | None:
        """Of this set; None when there is no route."""
        route: Any = self.table.route(topic)
        rows = [] if route is None else route["queueDatas"]
        return next((row["perm"] for row in rows if row["brokerName"] == "a"), None)

    def route(self, topic: str = "T", zone: str | None = None, acting: bool = True) -> Any:
        """Id to the id of whose address stands there; None when there is no route."""
        found: Any = self.table.route(topic, zone, acting_masters=acting)
        rows = [] if found is None else found["brokerDatas"]
        names = {address_of(broker_id): broker_id for broker_id in range(10)}
        return next(
            (
                {shown: names[address] for shown, address in row["brokerAddrs"].items()}
                for row in rows
                if row["brokerName"] == "a"
            ),
            None,
        )

    def told(self) -> list[tuple[list[int], dict[str, str]]]:
        """Notices since the last time: ids that get one, and what it says."""
        changes = [one for one in self.effects if isinstance(one, MinIdChanged)]
        self.effects = [one for one in self.effects if isinstance(one, MembersSeen)]
        names = {address: broker_id for broker_id, address in self.members().items()}
        return [
            (sorted(names[address] for address in one.receivers), one.notice())
            for one in changes
            if one.receivers
        ]
