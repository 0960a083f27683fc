"""What a person chose about a local cluster, and which choices make none.

Refuses to know what the cluster consists of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.problems import EXIT_USAGE, Problem

REPLICAS_MAX = 9
WATCHDOG_MS_MIN, WATCHDOG_MS_MAX = 1_000, 600_000
CONTROLLERS_MAX = 9
CONTROLLED, ACTING = "controllers", "acting"
MODES = (CONTROLLED, ACTING)
ACTING_REPLICAS_MIN = 2
"""A master, and somebody to act for it."""
IN_SYNC_SET, MAJORITY = "in-sync-set", "majority"
REPLICATIONS = (IN_SYNC_SET, MAJORITY)
MAJORITY_REPLICAS = (3, 5)
"""Of one and two that are lost nothing depends; of an even number one more is no help."""
BY_MODE: Mapping[str, Mapping[str, Any]] = {
    CONTROLLED: {},
    ACTING: {"mode": ACTING, "controllers": 0, "kafka_nodes": 0, "land": False},
}
"""What differs from the defaults below, where nobody says otherwise."""
OF_MAJORITIES: Mapping[str, Any] = {"controllers": 0, "kafka_nodes": 0, "land": False}
"""The same of a set that replicates by majority."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a person chose. `replicas`: of each set; `kafka` replaces the local Kafka when it is not
    empty; `places` as `infra.cluster.placement` has them.
    """

    replicas: int = 3
    controllers: int = 2
    kafka_nodes: int = 1
    host: str = "127.0.0.1"
    advertise_host: str | None = None
    base_port: int = 0
    kafka: Mapping[str, str] = field(default_factory=dict)
    land: bool = True
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    watchdog_ms: int = 2_000
    mode: str = CONTROLLED
    replication: str = IN_SYNC_SET

    @property
    def by_majority(self) -> bool:
        """One set, whose members elect their leader themselves."""
        return self.replication == MAJORITY

    @property
    def acts(self) -> bool:
        """Two sets without controllers, of which a slave acts for a master that is away."""
        return self.mode == ACTING

    @property
    def has_log(self) -> bool:
        """There is a Kafka to which brokers report."""
        return bool(self.kafka) or self.kafka_nodes > 0

    @property
    def min_in_sync(self) -> int:
        """Copies that an acknowledgement needs: two, and of a single replica its own."""
        return 1 if self.replicas == 1 else 2

    def check(self) -> None:
        """Problem when the numbers make no cluster."""
        if self.by_majority:
            self._check_majority()
        elif self.acts:
            self._check_acting()
        else:
            self._check_controlled()
        for flag, host in (("host", self.host), ("advertise-host", self.advertise_host)):
            if host is not None and (":" in host or not host.strip()):
                raise Problem(
                    f"--{flag} {host!r} is no IPv4 address and no name of a host",
                    "RocketMQ's addresses have no place for IPv6: use one of these.",
                    EXIT_USAGE,
                )
        if self.watchdog_ms and not WATCHDOG_MS_MIN <= self.watchdog_ms <= WATCHDOG_MS_MAX:
            raise Problem(
                f"--watchdog-ms {self.watchdog_ms} is out of range",
                f"Use {WATCHDOG_MS_MIN} to {WATCHDOG_MS_MAX}, or 0: nobody is ended.",
                EXIT_USAGE,
            )
        if self.base_port and not 1024 <= self.base_port <= 65_000:
            raise Problem(
                f"--base-port {self.base_port} is out of range", "Use 1024 to 65000.", EXIT_USAGE
            )

    def _check_controlled(self) -> None:
        # none: controllers and a name server for brokers that others run
        _in_range("replicas", self.replicas, 0, REPLICAS_MAX)
        _in_range("controllers", self.controllers, 1, CONTROLLERS_MAX)
        if self.kafka_nodes not in (1, 3):
            raise Problem(
                f"--kafka-nodes {self.kafka_nodes} is no choice", "Use 1 or 3.", EXIT_USAGE
            )

    def _check_acting(self) -> None:
        _in_range("replicas", self.replicas, ACTING_REPLICAS_MIN, REPLICAS_MAX)
        self._check_without_controllers("--mode acting: nobody elects there")

    def _check_majority(self) -> None:
        if self.acts:
            raise Problem(
                "--mode acting does not go with --replication majority: a set replicates in one "
                "way",
                "Leave one of the two out.",
                EXIT_USAGE,
            )
        if self.replicas not in MAJORITY_REPLICAS:
            raise Problem(
                f"--replicas {self.replicas} is no choice of --replication majority",
                f"Use {' or '.join(map(str, MAJORITY_REPLICAS))}.",
                EXIT_USAGE,
            )
        self._check_without_controllers("--replication majority: its members elect")

    def _check_without_controllers(self, what: str) -> None:
        if self.controllers:
            raise Problem(
                f"--controllers does not go with {what}", "Leave one of the two out.", EXIT_USAGE
            )
        if self.kafka_nodes not in (0, 1, 3):
            raise Problem(
                f"--kafka-nodes {self.kafka_nodes} is no choice",
                "Use 0, 1 or 3; with 0 brokers report to nobody.",
                EXIT_USAGE,
            )
        if self.land and not self.has_log:
            raise Problem(
                "--land needs a log, and --kafka-nodes 0 starts none",
                "Leave --kafka-nodes out, or name yours with --kafka.",
                EXIT_USAGE,
            )


def with_defaults(given: Mapping[str, Any]) -> ClusterOptions:
    """The options that these choices make, each other one by its mode. Where a set without
    controllers is to be landed, there is a Kafka.
    """
    mode = str(given.get("mode", CONTROLLED))
    by_majority = given.get("replication") == MAJORITY
    chosen = {**BY_MODE.get(mode, {}), **(OF_MAJORITIES if by_majority else {}), **given}
    if (mode == ACTING or by_majority) and chosen["land"] and not given.get("kafka"):
        chosen["kafka_nodes"] = given.get("kafka_nodes", 1)
    return ClusterOptions(**chosen)


def _in_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Problem(f"--{name} {value} is out of range", f"Use {least} to {most}.", EXIT_USAGE)
