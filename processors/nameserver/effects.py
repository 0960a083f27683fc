"""What a route table asks its name server to do, or to tell, after a change (PROTOCOL 4.1).

Responsible for: the values, and the fields of the notice that brokers get (905).
Refuses to know: sockets; whether notices are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """The brokers of a name are others than before: id to address, empty when nobody is left."""

    cluster_name: str
    broker_name: str
    acting_master: bool
    members: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class MinIdChanged:
    """The smallest id of a name is another one, and `receivers`, addresses of its members, are to
    be told so. Either `offline_address`, who had the smallest id and left, or `ha_address`, of the
    broker that came with a smaller one.
    """

    cluster_name: str
    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    receivers: tuple[str, ...]

    def notice(self) -> dict[str, str]:
        """The fields of a 905. RocketMQ's name server sends no brokerName, and nor do we."""
        said = {
            "minBrokerId": str(self.min_id),
            "minBrokerAddr": self.min_address,
            "offlineBrokerAddr": self.offline_address,
            "haBrokerAddr": self.ha_address,
        }
        return {name: value for name, value in said.items() if value is not None}


Effect = MembersSeen | MinIdChanged
