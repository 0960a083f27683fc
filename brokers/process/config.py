"""The configuration of one broker process, read from TOML and flags.

Responsible for: names, defaults, limits, one clear error for an unreadable or contradictory file.
Refuses to know: what the settings do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from brokers.process.majority.config import MemberConfig, majority_refusal, member_of
from brokers.remoting.addresses import (
    ANY_HOSTS,
    is_loopback,
    join_address,
    split_address,
    written_address,
)
from brokers.replica.fixed.ack_rule import GAP_BYTES_MAX
from brokers.replica.put_rules import PAGE_CACHE_BUSY_MS, QUEUE_WAIT_MS
from brokers.service.sending.timed import PRECISIONS_MS, ROLL_WINDOW_MAX
from brokers.store.log.delay_levels import DELAY_LEVELS, delay_levels
from brokers.store.queues.entries import ENTRY_BYTES
from brokers.store.store import StoreConfig
from events.config_file import ConfigError, kafka_texts, load_config, named_folder

__all__ = ["BrokerConfig", "ConfigError", "load"]

DEFAULT_LISTEN = "127.0.0.1:10911"
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
OWN_LABELS = frozenset(
    (
        *("cluster", "node_type", "node_id", "otel_scope_name", "topic", "consumer_group"),
        *("message_type", "is_system", "is_retry", "processor", "storage_type", "language"),
        *("storage_medium", "version", "protocol_type", "consume_mode"),
    )
)
"""Labels that RocketMQ's series have anyway."""
NAME = r"^[a-zA-Z0-9_-]{1,120}$"
ACTING = (
    "enable_slave_acting_master",
    "enable_remote_escape",
    "skip_pre_online",
    "lock_in_strict_mode",
)
"""What only a set without controllers has, whose slaves act for the master."""


class BrokerConfig(BaseModel):
    """Addresses are `host:port`; `listen` is bound, `advertise` is the address given to others.
    Times in ms, sizes in bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster_name: str = Field("regent", pattern=NAME)
    broker_name: str = Field("broker-a", pattern=NAME)
    listen: str = DEFAULT_LISTEN
    advertise: str | None = None
    # Without a setting: the host of `listen`, one port above.
    ha_listen: str = ""
    ha_advertise: str | None = None
    # Slaves of the Java kind ask for topics on listen port - 2 (PROTOCOL 2.11).
    second_listen: bool = True
    store_dir: Path
    # Prometheus metrics, health and readiness over HTTP; empty: none. Labels stand on RocketMQ's
    # series (its metricsLabel).
    http_listen: str = ""
    metrics_labels: dict[str, str] = Field(default_factory=dict)
    controllers: list[str] = Field(
        default_factory=list, description="they elect the master; none: see broker_id"
    )
    # RocketMQ's brokerId, brokerRole, haMasterAddress, haMaxGapNotInSync: a set without
    # controllers, over RocketMQ's default HA stream (PROTOCOL 2.12).
    broker_id: int | None = Field(
        None, ge=0, le=(1 << 31) - 1, description="a set without controllers: 0 is its master"
    )
    broker_role: Literal["SYNC_MASTER", "ASYNC_MASTER", "SLAVE"] | None = Field(
        None,
        description="without controllers: SYNC_MASTER waits for in_sync_replicas, ASYNC_MASTER for "
        "nobody; SYNC_MASTER for id 0, SLAVE for others",
    )
    ha_master_address: str | None = Field(
        None,
        description="a slave without controllers: where its master takes HA links; as name servers "
        "say",
    )
    ha_in_sync_gap_bytes: int = Field(GAP_BYTES_MAX, ge=1)
    # RocketMQ's enableSlaveActingMaster, enableRemoteEscape, skipPreOnline, lockInStrictMode,
    # compatibleWithOldNameSrv, totalReplicas, brokerNotActiveTimeoutMillis,
    # syncBrokerMemberGroupPeriod: where no controller elects, the smallest slave that lives acts
    # for the master (PROTOCOL 7). Alike on all replicas of a set.
    enable_slave_acting_master: bool = Field(
        False, description="without controllers: a slave acts for a master that is away"
    )
    enable_remote_escape: bool = False
    skip_pre_online: bool = False
    lock_in_strict_mode: bool = False
    compatible_with_old_name_servers: bool = True
    total_replicas: int = Field(1, ge=1, le=1_000)
    broker_not_active_ms: int = Field(10_000, ge=100)
    member_group_poll_ms: int = Field(1_000, ge=50)
    # RocketMQ's enableDLegerCommitLog, dLegerSelfId, dLegerPeers, dLegerGroup (without: the name of
    # the broker), preferredLeaderId: the log is that of a member of a majority group, whose peers
    # never change (PROTOCOL 10.13). What is acknowledged is on the disks of a majority, unless
    # `majority_flush` is "later".
    replication: Literal["in-sync-set", "majority"] = "in-sync-set"
    majority_self_id: str = ""
    majority_peers: str = Field(
        "", description="members of a majority group: n0-host:port;n1-host:port;..."
    )
    majority_group: str = ""
    majority_listen: str = ""
    majority_preferred_leaders: str = ""
    majority_flush: Literal["before_acknowledged", "later"] = "before_acknowledged"
    majority_heartbeat_ms: int = Field(2_000, ge=50)
    majority_heartbeats_missed_max: int = Field(3, ge=1)
    majority_vote_pause_min_ms: int = Field(300, ge=1)
    majority_vote_pause_max_ms: int = Field(1_000, ge=1)
    name_servers: list[str] = Field(default_factory=list)
    kafka: dict[str, str] | None = None

    commit_log_file_bytes: int = Field(1 << 30, ge=1 << 16, le=1 << 31)
    consume_queue_file_entries: int = Field(300_000, ge=100, le=10_000_000)
    message_index: bool = True
    index_hash_slots: int = Field(5_000_000, ge=1, le=100_000_000)
    index_entries_max: int = Field(20_000_000, ge=2, le=100_000_000)
    scrub_bytes_per_s: int = Field(8 << 20, ge=0)
    scrub_every_s: int = Field(21_600, ge=1)
    min_in_sync_replicas: int = Field(2, ge=1, le=100)
    all_ack: bool = True
    # Only without all_ack, and then acknowledged messages may be lost: success needs this many
    # copies, whoever holds them.
    in_sync_replicas: int = Field(2, ge=1, le=100)
    # RocketMQ's name; it acts without controllers only, so never here
    auto_in_sync_replicas: bool = False
    # RocketMQ's names. A learner copies, asks for no election and joins no set. An empty store
    # begins with the newest file of the master instead of the oldest one it has: what is older is
    # then on the other replicas only.
    async_learner: bool = False
    sync_from_last_file: bool = False
    election_priority: int = Field(2_147_483_647, ge=0)
    auto_create_topics: bool = True
    # RocketMQ's rejectTransactionMessage, transactionTimeOut, transactionCheckInterval and
    # transactionCheckMax: halves are asked about when they are so old, so often.
    reject_transactions: bool = False
    transaction_timeout_ms: int = Field(6_000, ge=0)
    transaction_check_interval_ms: int = Field(30_000, ge=100)
    transaction_checks_max: int = Field(15, ge=1)
    # RocketMQ's brokerPermission: read 4, write 2. What is not allowed stands in no route; order
    # topics take no sends then.
    broker_permission: int = Field(6, ge=0, le=7)
    # RocketMQ's messageDelayLevel: alike on all replicas of a set.
    message_delay_level: str = DELAY_LEVELS
    # RocketMQ's slaveReadEnable and accessMessageInMemoryMaxRatio: a consumer with more of the log
    # before it than this share of the machine's memory is sent to a slave, and slaves answer pulls.
    slave_read_enable: bool = False
    in_memory_max_percent: int = Field(40, ge=0, le=100)
    # RocketMQ's enablePropertyFilter: consumers may filter by SQL92. There it is off by default.
    enable_property_filter: bool = True

    # RocketMQ's enableRetryTopicV2, retrieveMessageFromPopRetryTopicV1, popFromRetryProbability:
    # the name of the topics of what was popped and not acknowledged (the same on all replicas),
    # whether the other name is still read, and how many pops of a hundred read them first.
    retry_topic_v2: bool = False
    read_pop_retry_topic_v1: bool = True
    pop_from_retry_percent: int = Field(20, ge=0, le=100)

    heartbeat_interval_ms: int = Field(1_000, ge=50)
    controller_heartbeat_timeout_ms: int = Field(10_000, ge=100)
    replica_poll_ms: int = Field(1_000, ge=50)
    name_server_register_ms: int = Field(30_000, ge=1_000)
    name_server_timeout_ms: int = Field(120_000, ge=1_000)
    metadata_sync_ms: int = Field(3_000, ge=100)
    offsets_persist_ms: int = Field(5_000, ge=50)
    # Files of the log are deleted this many hours after their last message, at these hours of the
    # day ("04", "02;14"), or at any hour while the disk is used beyond the first share; beyond the
    # second the oldest go at any age, beyond the third no message is taken.
    file_reserved_hours: int = Field(72, ge=1, le=1_000_000)
    delete_when: str = Field("04", pattern=r"^([01]?\d|2[0-3])(;([01]?\d|2[0-3]))*$")
    disk_max_used_percent: int = Field(75, ge=10, le=100)
    disk_clean_forcibly_percent: int = Field(85, ge=10, le=100)
    disk_full_percent: int = Field(90, ge=10, le=100)
    flush_interval_ms: int = Field(500, ge=10)
    # "sync": a send is answered when it is on the disks of the master and of all members that are
    # set so themselves.
    flush_disk: Literal["async", "sync"] = "async"
    sync_flush_timeout_ms: int = Field(5_000, ge=100)
    partial_frame_timeout_ms: int = Field(30_000, ge=100)
    ack_timeout_ms: int = Field(3_000, ge=100)
    # RocketMQ's waitTimeMillsInSendQueue and osPageCacheBusyTimeOutMills: what is refused as too
    # much is sends that were not written for longer, behind others that were not either, and sends
    # that came while an append took longer.
    send_queue_wait_ms: int = Field(QUEUE_WAIT_MS, ge=1)
    page_cache_busy_ms: int = Field(PAGE_CACHE_BUSY_MS, ge=1)
    hold_without_master_ms: int = Field(2_000, ge=0)
    # How often clients read their route (pollNameServerInterval of stock ones). A former master
    # that is asked to stop passes on what comes for one such period, and longer while something
    # comes, but no longer than drain_ms.
    route_poll_ms: int = Field(30_000, ge=0, le=600_000)
    drain_ms: int = Field(60_000, ge=0, le=1_200_000)
    # A flush, or a byte written beside the log, that the disk has not answered for this long: the
    # master hands over. 0: never.
    disk_timeout_ms: int = Field(3_000, ge=0, le=600_000)
    # RocketMQ's timerWheelEnable, timerPrecisionMs, timerMaxDelaySec, timerRollWindowSlot,
    # timerCongestNumEachSlot, timerStopEnqueue, timerStopDequeue, timerFlushIntervalMs,
    # mappedFileSizeTimerLog, recallMessageEnable. Alike on all replicas of a set.
    timer_wheel_enable: bool = True
    timer_precision_ms: int = Field(1_000, ge=100)
    timer_max_delay_s: int = Field(259_200, ge=1, le=10 * 366 * 86_400)
    timer_roll_window_slots: int = Field(172_800, ge=2)
    timer_slot_messages: int = Field(2**31 - 1, ge=1, le=2**31 - 1)
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    timer_flush_interval_ms: int = Field(1_000, ge=10)
    timer_log_file_bytes: int = Field(100 << 20, ge=4_096, le=1 << 31)
    recall_message_enable: bool = False
    ack_wait_shrink_ms: int = Field(1_000, ge=50)
    relink_grace_ms: int = Field(1_000, ge=50)
    ha_heartbeat_ms: int = Field(1_000, ge=50)
    # RocketMQ's haFlowControlEnable and maxHaTransferByteInSecond: log bytes that a master sends
    # over each HA link.
    ha_flow_control: bool = False
    ha_transfer_bytes_per_s: int = Field(100 << 20, ge=1 << 16)

    @field_validator("listen", "advertise", "ha_listen", "ha_advertise", "ha_master_address")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return value if value is None else written_address(value)

    @field_validator("store_dir", mode="before")
    @classmethod
    def _folder(cls, value: object) -> object:
        return named_folder(value)

    @field_validator("http_listen")
    @classmethod
    def _http_address(cls, value: str) -> str:
        return written_address(value) if value else value

    @field_validator("metrics_labels")
    @classmethod
    def _labels(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not LABEL_NAME.fullmatch(name) or name in OWN_LABELS:
                raise ValueError(f"{name!r} cannot be the name of a label")
        return value

    @field_validator("message_delay_level")
    @classmethod
    def _delay_levels(cls, value: str) -> str:
        delay_levels(value)
        return " ".join(value.split())

    @field_validator("timer_precision_ms")
    @classmethod
    def _precision(cls, value: int) -> int:
        """As RocketMQ: forced down to one that it knows."""
        return max(known for known in PRECISIONS_MS if known <= value)

    @field_validator("timer_roll_window_slots")
    @classmethod
    def _roll_window(cls, value: int) -> int:
        """As RocketMQ: half the wheel, less a minute, where it does not fit."""
        return min(value, ROLL_WINDOW_MAX)

    @field_validator("controllers", "name_servers", mode="before")
    @classmethod
    def _addresses(cls, value: object) -> object:
        parts = [part for part in value.split(";") if part] if isinstance(value, str) else value
        return [written_address(str(part)) for part in parts] if isinstance(parts, list) else parts

    @field_validator("kafka", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        return kafka_texts(value)

    @model_validator(mode="before")
    @classmethod
    def _ha_follows(cls, fields: Any) -> Any:
        """`ha_listen` where it is not set."""
        if not isinstance(fields, dict) or fields.get("ha_listen"):
            return fields
        try:
            host, port = split_address(str(fields.get("listen", DEFAULT_LISTEN)))
        except ValueError:
            return fields  # `listen` is refused by itself
        return {**fields, "ha_listen": join_address(host, port + 1)}

    @model_validator(mode="before")
    @classmethod
    def _fixed_role(cls, fields: Any) -> Any:
        """What holds where the configuration gives the role."""
        if not isinstance(fields, dict) or fields.get("broker_id") is None:
            return fields
        role = "SYNC_MASTER" if str(fields["broker_id"]).strip() == "0" else "SLAVE"
        return {"all_ack": False, **fields, "broker_role": fields.get("broker_role") or role}

    @model_validator(mode="after")
    def _one_place(self) -> BrokerConfig:
        """Controllers give id and role, or this configuration does."""
        if refusal := place_refusal(self):
            raise ValueError(refusal)
        return self

    @model_validator(mode="after")
    def _apart(self) -> BrokerConfig:
        """HA is bound once the broker has its id: a port that is taken twice would show late."""
        names: dict[str, str] = {}
        ha = "majority_peers" if self.by_majority else "ha_listen"
        bound = {"listen": self.listen, ha: self.ha_listen, "http_listen": self.http_listen}
        if self.by_majority:
            bound[ha] = self.member.bound
        for name, address in bound.items():
            first = names.setdefault(address, name)
            if first != name and split_address(address)[1]:
                raise ValueError(f"{first} and {name} are both {address}: each needs its own port")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> BrokerConfig:
        """What others are given is an address that they can reach."""
        for name, given in (("advertise", self.advertised), ("ha_advertise", self.ha_advertised)):
            if split_address(given)[0] in ANY_HOSTS:
                raise ValueError(
                    f"{name} must say where others reach this broker (HOST:PORT): listen names "
                    "every address"
                )
        if self.heartbeat_interval_ms >= self.controller_heartbeat_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than "
                f"controller_heartbeat_timeout_ms ({self.controller_heartbeat_timeout_ms}): else "
                "controllers take this broker for dead between two heartbeats"
            )
        if is_loopback(self.ha_advertised) and not is_loopback(self.advertised):
            raise ValueError(
                f"ha_listen is {self.ha_listen}, which other hosts cannot reach, but this broker "
                f"is advertised as {self.advertised}: set ha_listen, or ha_advertise"
            )
        return self

    @model_validator(mode="after")
    def _room(self) -> BrokerConfig:
        """Old files go before messages are refused."""
        if self.disk_full_percent < self.disk_clean_forcibly_percent:
            raise ValueError(
                f"disk_full_percent ({self.disk_full_percent}) must not be less than "
                f"disk_clean_forcibly_percent ({self.disk_clean_forcibly_percent}): else messages "
                "are refused while old files stay"
            )
        return self

    @property
    def by_majority(self) -> bool:
        """Its set is a majority group."""
        return self.replication == "majority"

    @property
    def member(self) -> MemberConfig:
        """Of the majority group, as that is told. ValueError when it cannot be one."""
        return member_of(self)

    @property
    def sizes(self) -> StoreConfig:
        """Of the store's files, whichever way the set replicates."""
        return StoreConfig(
            self.commit_log_file_bytes,
            self.consume_queue_file_entries * ENTRY_BYTES,
            message_index=self.message_index,
            index_slots=self.index_hash_slots,
            index_entries_max=self.index_entries_max,
        )

    @property
    def advertised(self) -> str:
        """The address given to clients, controllers and name servers."""
        return self.advertise or self.listen

    @property
    def copies_wanted(self) -> int:
        """Replicas, this one included, that a send waits for where it does not wait for all."""
        return 1 if self.broker_role == "ASYNC_MASTER" else self.in_sync_replicas

    @property
    def ha_advertised(self) -> str:
        if self.ha_advertise:
            return self.ha_advertise
        host, port = split_address(self.ha_listen)
        if host not in ANY_HOSTS:
            return self.ha_listen
        return join_address(split_address(self.advertised)[0], port)


def place_refusal(config: BrokerConfig) -> str | None:
    """What contradicts itself in who gives this broker its id and its role, with the way out."""
    if config.by_majority or config.majority_peers or config.majority_self_id:
        return majority_refusal(config)
    if config.broker_id is None:
        if not config.controllers:
            return (
                "controllers is missing: name them, or give broker_id for a set without any "
                '(0 is its master), or replication = "majority"'
            )
        for name in ("broker_role", "ha_master_address", *ACTING):
            if getattr(config, name) not in (None, False):
                return f"{name} is for sets without controllers: remove it, or give broker_id"
        if config.total_replicas > 1:
            return "total_replicas is for sets without controllers: remove it, or give broker_id"
        return None
    if config.controllers:
        return (
            "controllers give ids and elect the master, broker_id fixes both: remove one of the two"
        )
    is_master = config.broker_id == 0
    if is_master and config.broker_role == "SLAVE":
        return "broker_id 0 is the master: broker_role is SYNC_MASTER or ASYNC_MASTER"
    if not is_master and config.broker_role != "SLAVE":
        return f"broker_id {config.broker_id} is a slave: remove broker_role {config.broker_role}"
    if is_master and config.ha_master_address is not None:
        return "ha_master_address is for slaves, and broker_id 0 is the master: remove it"
    if not is_master and not (config.name_servers or config.ha_master_address):
        return (
            "nobody tells this slave its master's address: give name_servers, or ha_master_address"
        )
    if config.all_ack:
        return (
            "all_ack waits for the SyncStateSet, which only controllers keep: remove it, and set "
            "in_sync_replicas"
        )
    for name in ("async_learner", "sync_from_last_file"):
        if getattr(config, name):
            return f"{name} is for sets with controllers: remove it, or broker_id"
    return _acting_refusal(config)


def _acting_refusal(config: BrokerConfig) -> str | None:
    if not config.enable_slave_acting_master:
        return next(
            (
                f"{name} is for sets whose slaves act: set enable_slave_acting_master, or remove it"
                for name in ("skip_pre_online", "lock_in_strict_mode")
                if getattr(config, name)
            ),
            None,
        )
    if not config.name_servers:
        return "enable_slave_acting_master needs name_servers: they say who of the set lives"
    if config.broker_not_active_ms <= config.heartbeat_interval_ms:
        return (
            f"heartbeat_interval_ms ({config.heartbeat_interval_ms}) must be less than "
            f"broker_not_active_ms ({config.broker_not_active_ms})"
        )
    return None


def load(path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> BrokerConfig:
    """The TOML file (None: flags only) with `overrides` over it; overrides of None say nothing.
    Raises ConfigError.
    """
    return load_config(BrokerConfig, path, overrides)
