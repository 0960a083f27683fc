"""The core of a replica whose role is configured, made of the broker's settings.

Refuses to know: what the core does.
"""

from __future__ import annotations

import logging

from brokers.process.config import BrokerConfig
from brokers.process.refused_ends import read_refused
from brokers.replica.fixed.ack_rule import FixedAckRule
from brokers.replica.fixed.config import FixedConfig
from brokers.replica.fixed.core import FixedCore
from brokers.store.log.checked_records import has_head
from brokers.store.recovery.boot import Boot
from brokers.store.store import MessageStore

_log = logging.getLogger("regent.broker.replica")


def make_fixed_core(config: BrokerConfig, boot: Boot, store: MessageStore) -> FixedCore:
    """FENCED until its first tick."""
    assert config.broker_id is not None
    settings = FixedConfig(
        file_bytes=config.commit_log_file_bytes,
        ack_rule=FixedAckRule(
            waits=config.broker_role == "SYNC_MASTER",
            in_sync=config.in_sync_replicas,
            min_in_sync=config.min_in_sync_replicas,
            auto=config.auto_in_sync_replicas,
            counts_in_sync=config.enable_slave_acting_master,
            gap_bytes_max=config.ha_in_sync_gap_bytes,
        ),
        ha_master_address=config.ha_master_address,
        ha_heartbeat_ms=config.ha_heartbeat_ms,
        proof=has_head,
        ha_flow_bytes_per_s=config.ha_transfer_bytes_per_s if config.ha_flow_control else None,
    )
    for warning in _warnings(config, store):
        _log.warning("%s", warning)
    return FixedCore(
        settings,
        broker_id=config.broker_id,
        incarnation=boot.incarnation,
        clean=boot.clean,
        trusted_end=boot.trusted_end,
        log_end=store.log_end,
        log_min=store.log_min,
        refused=read_refused(store.root),
    )


def _warnings(config: BrokerConfig, store: MessageStore) -> list[str]:
    """What an operator has to know of these settings when the broker starts."""
    said = []
    acting = config.enable_slave_acting_master
    if config.broker_id == 0:
        said.append(
            f"this set has no controllers: {'no slave writes' if acting else 'nobody takes over'} "
            "for this master, and what no slave has is lost with its disk"
        )
    if acting and config.total_replicas == 1:
        said.append(
            "total_replicas is 1: this broker goes online without asking what became of its set "
            "meanwhile; set it to the number of replicas"
        )
    if config.broker_role == "ASYNC_MASTER":
        said.append("broker_role ASYNC_MASTER: sends are answered before any slave has them")
    if config.auto_in_sync_replicas and not acting:
        said.append("auto_in_sync_replicas has no effect: no slave of this set acts for its master")
    # Which settings were written is not known any more.
    if config.min_in_sync_replicas != BrokerConfig.model_fields["min_in_sync_replicas"].default:
        said.append(
            "min_in_sync_replicas has no effect: a set without controllers refuses no send for "
            "want of slaves, in_sync_replicas says what answers wait for"
        )
    if (store.root / "epochFileCheckpoint").exists():
        said.append(
            "this store comes from a set with controllers: its epochs are not gone on with, and it "
            "must not go back there with what is written from now on"
        )
    return said
