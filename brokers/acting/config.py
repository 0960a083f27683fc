"""What a broker of a set without controllers knows of itself, and the times it goes by
(PROTOCOL 7.2).

Refuses to know: where settings come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.acting.messages import MASTER_ID, Place

REGISTER_MS_MIN, REGISTER_MS_MAX = 10_000, 60_000


@dataclass(frozen=True, slots=True)
class ActingConfig:
    """By RocketMQ's settings enableSlaveActingMaster, totalReplicas, skipPreOnline,
    compatibleWithOldNameSrv, brokerHeartbeatInterval, syncBrokerMemberGroupPeriod,
    registerNameServerPeriod, brokerNotActiveTimeoutMillis, disappearTimeAfterStart and a set
    haMasterAddress. `call_ms`: how long a call may take.

    Ours: `grace_ms`, for which an empty group is not believed; `member_wait_ms`, after which a
    master goes online without a member that it cannot reach; `brief_ms`, for which a name server
    may have forgotten this broker without anybody having acted for it.
    """

    place: Place
    ha_address: str
    name_servers: tuple[str, ...]
    enabled: bool = True
    total_replicas: int = 2
    skip_pre_online: bool = False
    compat: bool = True
    static_ha_address: bool = False
    heartbeat_ms: int = 1_000
    member_poll_ms: int = 1_000
    register_ms: int = 30_000
    not_active_ms: int = 10_000
    appears_after_ms: int = 0
    call_ms: int = 3_000
    grace_ms: int = 35_000
    member_wait_ms: int = 60_000
    brief_ms: int = 3_000

    def __post_init__(self) -> None:
        if not self.name_servers or len(set(self.name_servers)) != len(self.name_servers):
            raise ValueError("name servers are named once each, and there is one at least")
        if self.place.broker_id < MASTER_ID or self.total_replicas < 1:
            raise ValueError("an id from 0 on, and one replica at least")
        times = (self.heartbeat_ms, self.member_poll_ms, self.not_active_ms, self.call_ms)
        if min(times) <= 0 or self.not_active_ms <= self.heartbeat_ms:
            raise ValueError("times above 0, and a heartbeat before the broker is not active")

    @property
    def is_master(self) -> bool:
        """A master by its settings: nobody elects one."""
        return self.place.broker_id == MASTER_ID

    @property
    def starts_isolated(self) -> bool:
        """Whether it has to find out first what became of its set without it."""
        return self.enabled and self.total_replicas > 1

    @property
    def register_every_ms(self) -> int:
        return min(max(self.register_ms, REGISTER_MS_MIN), REGISTER_MS_MAX)
