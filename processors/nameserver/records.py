"""The values a route table is made of, and their JSON shapes.

Responsible for: what a broker registers, what is kept of it, what became of a registration.
Refuses to know: the rules between them (routes.py), and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from processors.nameserver.effects import Effect

MASTER_ID = 0
PERM_WRITE = 2
PERM_READ_WRITE = 6


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Version of a broker's topic table; `state_version` is the master epoch in controller mode,
    else 0.
    """

    state_version: int = 0
    counter: int = 0
    timestamp_ms: int = 0

    def to_wire(self) -> dict[str, int]:
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """What one broker offers of a topic; `perm` is a sum of priority 8, read 4, write 2, inherit
    1.
    """

    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0

    def with_perm(self, perm: int) -> TopicQueues:
        return replace(self, perm=perm)

    def without_write(self) -> TopicQueues:
        return replace(self, perm=self.perm & ~PERM_WRITE)

    def to_wire(self, broker_name: str) -> dict[str, object]:
        return {
            "brokerName": broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says in REGISTER_BROKER. `acting_master` None: a broker older than that
    option. `filter_servers` None: it says nothing of them.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    topics: Mapping[str, TopicQueues]
    timeout_ms: int = 120_000
    acting_master: bool | None = None
    zone: str = ""
    filter_servers: tuple[str, ...] | None = None


class Verdict(Enum):
    """What became of a registration. STALE is answered like ACCEPTED, with nothing in it (4.1)."""

    ACCEPTED = "accepted"
    STALE = "stale"
    SINGLE_TOPIC = "single topic before the first full registration"
    TABLE_FULL = "the table is full"


@dataclass(frozen=True, slots=True)
class Registered:
    """`master_address` and `master_ha_address`: for a slave whose master is known. `effects`: what
    follows from it, in order.
    """

    verdict: Verdict
    master_address: str | None = None
    master_ha_address: str | None = None
    effects: tuple[Effect, ...] = ()


@dataclass(slots=True)
class LiveBroker:
    """A broker that registered: over which connection, and when it was last heard of."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    timeout_ms: int
    connection_id: int
    last_heard_ms: int
    registration: int = 0
    """Which of the table's registrations this is: a later one of the same broker has a larger."""
    lost: bool = False
    """Its connection closed, and it was not heard of since."""
    filter_servers: tuple[str, ...] = ()


@dataclass(slots=True)
class BrokerGroup:
    """The brokers of one name."""

    cluster_name: str
    broker_name: str
    acting_master: bool = False
    addresses: dict[int, str] = field(default_factory=dict)
    highest_master_version: int = 0
    zone: str = ""

    def to_wire(self, addresses: Mapping[int, str] | None = None) -> dict[str, object]:
        """`addresses`: as a route shows them, where that differs."""
        shown = self.addresses if addresses is None else addresses
        zone = {"zoneName": self.zone} if self.zone else {}
        return {
            "brokerAddrs": dict(shown),
            "brokerName": self.broker_name,
            "cluster": self.cluster_name,
            "enableActingMaster": self.acting_master,
        } | zone
