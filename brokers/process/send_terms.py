"""On what terms a broker takes sends, by its configuration and its replica.

Refuses to know: how a send is served.
"""

from __future__ import annotations

import os
import random
import socket

from brokers.process.config import BrokerConfig
from brokers.remoting.addresses import split_address
from brokers.replica.put_rules import BusyGate
from brokers.replica.replica_port import Replica
from brokers.service.popping.terms import PopSettings
from brokers.service.sending.messages import UniqueKeys
from brokers.service.sending.send import Mastership, SendTerms
from brokers.service.sending.timed import TimerRules
from brokers.service.transactions.rules import TransactionTerms
from brokers.store.log.records import host_bytes


def send_terms(config: BrokerConfig, replica: Replica) -> SendTerms:
    """OSError when the advertised name has no address."""
    mastership = Mastership(
        replica.leads,
        replica.write_refusal,
        replica.log_grew,
        replica.confirmation,
        replica.storage_failed,
        replica.flushed if config.flush_disk == "sync" else None,
    )
    host, port = split_address(config.advertised)
    try:
        store_host = host_bytes(host, port)
    except ValueError:
        store_host = host_bytes(_number_of(host, config.advertised), port)
    return SendTerms(
        mastership,
        config.cluster_name,
        store_host,
        config.ack_timeout_ms,
        UniqueKeys(store_host[:-4], os.getpid(), random.getrandbits(32)),
        BusyGate(config.send_queue_wait_ms, config.page_cache_busy_ms),
        config.reject_transactions,
        timer_rules(config),
    )


def _number_of(host: str, advertised: str) -> str:
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        raise OSError(
            f"{host!r} has no address, and others are told to come to {advertised}: {error}"
        ) from None


def pop_settings(config: BrokerConfig) -> PopSettings:
    """Where what comes back goes, and when it is read."""
    return PopSettings(
        config.retry_topic_v2, config.read_pop_retry_topic_v1, config.pop_from_retry_percent
    )


def transaction_terms(config: BrokerConfig) -> TransactionTerms:
    """When halves are asked about."""
    return TransactionTerms(
        config.transaction_timeout_ms,
        config.transaction_check_interval_ms,
        config.transaction_checks_max,
        config.file_reserved_hours * 3_600_000,
    )


def timer_rules(config: BrokerConfig) -> TimerRules:
    """What the wheel of this broker allows."""
    return TimerRules(
        config.broker_name,
        config.timer_wheel_enable,
        config.timer_precision_ms,
        config.timer_max_delay_s * 1_000,
        config.timer_roll_window_slots,
        config.timer_slot_messages,
        config.timer_stop_enqueue,
        config.timer_stop_dequeue,
        config.timer_flush_interval_ms,
        config.timer_log_file_bytes,
        config.recall_message_enable,
    )
