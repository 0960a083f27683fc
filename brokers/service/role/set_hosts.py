"""From which hosts the replicas of this broker's set, and its controllers, speak.

Refuses to know: what they may ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from brokers.remoting.known_hosts import KnownHosts
from brokers.replica.ha_status import HaStatus
from brokers.service.role.role_view import RoleView


class SetHosts:
    """`addresses()`: the replicas of the set by broker id; `ha_status()`: who is linked here."""

    def __init__(
        self,
        controllers: Iterable[str],
        addresses: Callable[[], Mapping[int, str]],
        ha_status: Callable[[], HaStatus],
        roles: RoleView,
    ) -> None:
        self._addresses = addresses
        self._ha_status = ha_status
        self._roles = roles
        configured = tuple(controllers)
        self.replicas = KnownHosts(self._replica_addresses)
        self.controllers = KnownHosts(lambda: configured)

    def is_replica(self, peer: str) -> bool:
        """Whether a connection from `peer` (host:port) comes from a host on which this set has a
        replica: one that the controller knows, or that has an HA link here (a registered name need
        not be the address seen).
        """
        return self.replicas.holds(peer)

    def is_ours(self, peer: str) -> bool:
        """Whether `peer` is at the host of a replica of this set or of a controller."""
        return self.replicas.holds(peer) or self.controllers.holds(peer)

    def _replica_addresses(self) -> list[str]:
        linked = [s.address for s in self._ha_status().slaves if s.broker_id is not None]
        return [*self._addresses().values(), *linked, self._roles.master_address or ""]
