"""Settings of one replica. Times in ms, sizes in bytes. Refuses to know where they come from."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.ha.log_sender import BATCH_BYTES, UNACKED_BYTES_MAX, LinkLimits
from brokers.ha.pace import Patience
from brokers.ha.sync_set import SetTimers
from brokers.replica.put_rules import AckMode

LINKS_MAX = 64
"""Open HA links of one broker; a set has a handful of replicas."""


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """`ha_heartbeat_ms` and `housekeeping_ms` are RocketMQ's options of that name (5000 and 20000
    there); any value is compatible on the wire. A slave is patient for three heartbeats of its
    master, at most for `housekeeping_ms` (brokers/ha/pace.py). `all_ack=False` is RocketMQ's
    count mode with `in_sync_replicas` (design S2): it may lose acknowledged messages and says so.
    `auto_in_sync_replicas` is accepted and does nothing, as in RocketMQ under controllers.
    `async_learner`: copies and never joins the SyncStateSet. `sync_from_last_file`: an empty log
    begins with the newest file of the master instead of the oldest (syncFromLastFile,
    PROTOCOL 2.3).
    """

    file_bytes: int = 1024 * 1024 * 1024
    ack_wait_shrink_ms: int = 1000
    relink_grace_ms: int = 1000
    ha_heartbeat_ms: int = 1000
    housekeeping_ms: int = 20_000
    handshake_timeout_ms: int = 3000
    reconnect_backoff_min_ms: int = 20
    reconnect_backoff_max_ms: int = 500
    join_failed_backoff_ms: int = 2000
    disk_full_backoff_min_ms: int = 500
    disk_full_backoff_max_ms: int = 4000
    propose_retry_ms: int = 200
    ask_controller_ms: int = 1000
    ask_ha_address_ms: int = 500
    ha_address_guess_after_ms: int = 3000
    java_master_heartbeat_ms: int = 5000  # its haSendHeartbeatInterval, as released
    # longer than its poll of the controller (syncBrokerMetadataPeriod)
    java_master_patience_ms: int = 6000
    stall_ms: int = 300
    batch_bytes: int = BATCH_BYTES
    unacked_bytes_max: int = UNACKED_BYTES_MAX
    ha_flow_bytes_per_s: int | None = None
    links_max: int = LINKS_MAX  # with a handshake, and as many again without one yet
    min_in_sync_replicas: int = 2
    in_sync_replicas: int = 2
    all_ack: bool = True
    auto_in_sync_replicas: bool = False
    async_learner: bool = False
    sync_from_last_file: bool = False

    def ack_mode(self) -> AckMode:
        return AckMode(
            self.all_ack,
            self.in_sync_replicas,
            self.min_in_sync_replicas,
            self.auto_in_sync_replicas,
        )

    def warnings(self) -> list[str]:
        """What an operator has to know of these settings when the broker starts."""
        said = self.ack_mode().warnings()
        if self.sync_from_last_file:
            said.append(
                "sync_from_last_file: an empty store copies the newest file of the master only; "
                "elected, this replica cannot serve what is older"
            )
        if self.async_learner:
            said.append(
                "async_learner: this replica joins no SyncStateSet; only an unclean or designated "
                "election makes it master"
            )
        return said

    def link_limits(self) -> LinkLimits:
        return LinkLimits(
            file_bytes=self.file_bytes,
            heartbeat_ms=self.ha_heartbeat_ms,
            housekeeping_ms=self.housekeeping_ms,
            handshake_timeout_ms=self.handshake_timeout_ms,
            batch_bytes=self.batch_bytes,
            unacked_bytes_max=self.unacked_bytes_max,
            flow_bytes_per_s=self.ha_flow_bytes_per_s,
        )

    def patience(self, *, is_java_master: bool) -> Patience:
        return Patience(
            self.java_master_heartbeat_ms if is_java_master else self.ha_heartbeat_ms,
            self.housekeeping_ms,
        )

    def set_timers(self) -> SetTimers:
        return SetTimers(self.ack_wait_shrink_ms, self.relink_grace_ms)
