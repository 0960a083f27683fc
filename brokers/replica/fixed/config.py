"""Settings of one replica of a set without controllers. Times in ms, sizes in bytes.

Refuses to know: where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokers.ha.default_frames import HEADER
from brokers.ha.default_slave_link import Proof, not_zeros
from brokers.ha.frames import FRAME_BYTES_MAX
from brokers.ha.log_sender import BATCH_BYTES, UNACKED_BYTES_MAX, LinkLimits
from brokers.replica.config import LINKS_MAX
from brokers.replica.fixed.ack_rule import FixedAckRule

CHECK_BYTES = 64 * 1024
CHECK_GROWS = 16
DIVERGED_BYTES_MAX = 16 * 1024 * 1024

assert BATCH_BYTES + HEADER.size <= FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class FixedConfig:
    """`ha_heartbeat_ms`, `housekeeping_ms`: RocketMQ's options of that name (5000 and 20000 there).
    `ha_master_address`: where the master takes links, None: as name servers and the master say.
    `check_bytes`: what a slave compares with its master before it follows; where that differs,
    `CHECK_GROWS` times more the next time, up to `diverged_bytes_max`: a slave never cuts more than
    that of its log by itself. `proof`: of equal bytes that are not all that both logs have.
    """

    file_bytes: int = 1024 * 1024 * 1024
    ack_rule: FixedAckRule = field(default_factory=FixedAckRule)
    ha_master_address: str | None = None
    ha_heartbeat_ms: int = 1000
    housekeeping_ms: int = 20_000
    reconnect_min_ms: int = 50
    reconnect_max_ms: int = 2_000
    refused_pause_ms: int = 5_000
    ask_ha_address_ms: int = 2_000
    stall_ms: int = 300
    batch_bytes: int = BATCH_BYTES
    unacked_bytes_max: int = UNACKED_BYTES_MAX
    ha_flow_bytes_per_s: int | None = None
    links_max: int = LINKS_MAX
    check_bytes: int = CHECK_BYTES
    diverged_bytes_max: int = DIVERGED_BYTES_MAX
    proof: Proof = not_zeros

    def link_limits(self) -> LinkLimits:
        return LinkLimits(
            file_bytes=self.file_bytes,
            heartbeat_ms=self.ha_heartbeat_ms,
            housekeeping_ms=self.housekeeping_ms,
            batch_bytes=self.batch_bytes,
            unacked_bytes_max=self.unacked_bytes_max,
            flow_bytes_per_s=self.ha_flow_bytes_per_s,
        )
