"""What a replica can tell of its HA links at one moment, for operators (907).

Responsible for: the facts, read out of the role that stands. Refuses to know: sockets and their
addresses but as texts it is given, the shape of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.replica.master_role import MasterRole
from brokers.replica.slave_role import SlaveRole


@dataclass(frozen=True, slots=True)
class SlaveSeen:
    """A link that a master has. `acked`, `next_offset`: -1 before the slave's first
    acknowledgement.
    """

    address: str
    broker_id: int | None
    in_sync: bool
    acked: int
    next_offset: int
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class MasterSeen:
    """The master that a slave follows, linked or not; the ages are None without a link."""

    ha_address: str | None
    read_ms_ago: int | None = None
    written_ms_ago: int | None = None
    bytes_per_second: int = 0


@dataclass(frozen=True, slots=True)
class HaStatus:
    """A master has slaves, a slave has a master, a fenced replica has neither."""

    slaves: tuple[SlaveSeen, ...] = ()
    master: MasterSeen | None = None


def slaves_seen(
    role: MasterRole, peer_of: Callable[[int], str], now_ms: int
) -> tuple[SlaveSeen, ...]:
    """`peer_of(link id)`: the address at the other end."""
    return tuple(
        SlaveSeen(
            peer_of(link_id),
            link.peer_id,
            link.peer_id in role.sync.confirmed,
            -1 if link.acked is None else link.acked,
            link.next_offset,
            link.flow.per_second(now_ms),
        )
        for link_id, link in role.links.items()
    )


def master_seen(role: SlaveRole, now_ms: int) -> MasterSeen:
    address, link = role.ha_address.at(now_ms), role.link
    if link is None:
        return MasterSeen(address)
    return MasterSeen(
        address,
        now_ms - link.last_read_ms,
        now_ms - link.last_write_ms,
        link.flow.per_second(now_ms),
    )
