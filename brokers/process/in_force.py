"""Settings that are changed while the broker runs, put into force (PROTOCOL 4.19).

Responsible for: which part of the broker has which setting. Refuses to know: who changes them and
what may be changed (`brokers.configuration`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from brokers.clock import Clock
from brokers.configuration.live import LiveConfig
from brokers.process.config import BrokerConfig
from brokers.process.retention import RetentionTask, retention_policy
from brokers.process.role_switch import RoleSwitch
from brokers.process.send_terms import pop_settings, timer_rules, transaction_terms
from brokers.service.client_service import ClientService
from brokers.service.reading.slave_reads import SlaveReads

RETENTION = (
    "file_reserved_hours", "delete_when", "disk_max_used_percent", "disk_clean_forcibly_percent",
    "disk_full_percent",
)  # fmt: skip
TRANSACTIONS = (
    "transaction_timeout_ms", "transaction_check_interval_ms", "transaction_checks_max",
    "file_reserved_hours",
)  # fmt: skip
TIMERS = (
    "timer_max_delay_s", "timer_slot_messages", "timer_stop_enqueue", "timer_stop_dequeue",
    "timer_flush_interval_ms", "recall_message_enable",
)  # fmt: skip
PERMISSION = ("broker_permission",)
SENDS = ("reject_transactions", "send_queue_wait_ms", "page_cache_busy_ms")
ASKED = ("enable_property_filter", "auto_create_topics")
READS = ("slave_read_enable", "in_memory_max_percent")
POPS = ("read_pop_retry_topic_v1", "pop_from_retry_percent")


def live_config(
    written: BrokerConfig,
    service: ClientService,
    retention: RetentionTask,
    switch: RoleSwitch,
    clock: Clock,
    facts: Callable[[], Mapping[str, str]],
    report: Callable[[str, Mapping[str, object]], None],
) -> LiveConfig[BrokerConfig]:
    """For what it is given see there. A change is in force before it is answered."""
    live = LiveConfig(written, written.store_dir, clock, facts, report)
    take_slave_reads(service.pulls.slave_reads, live.running)

    def retain(config: BrokerConfig) -> None:
        retention.policy = retention_policy(config)

    live.when_changed(RETENTION, retain)
    live.when_changed(PERMISSION, lambda now: switch.permit(now.broker_permission, clock.wall_ms()))
    live.when_changed(TRANSACTIONS, lambda now: service.terms.adopt(transaction_terms(now)))
    live.when_changed(TIMERS, lambda now: service.timers.rules.adopt(timer_rules(now)))
    live.when_changed(SENDS, lambda now: _send(service, now))
    live.when_changed(POPS, lambda now: service.popping.take_settings(pop_settings(now)))
    live.when_changed(ASKED, lambda now: _ask(service, now))
    live.when_changed(READS, lambda now: take_slave_reads(service.pulls.slave_reads, now))
    return live


def take_slave_reads(reads: SlaveReads, config: BrokerConfig) -> None:
    """Whether consumers may read from slaves, and how much of the log counts as in memory."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reads.memory_bytes = memory_bytes * config.in_memory_max_percent // 100
    reads.enabled = config.slave_read_enable


def _send(service: ClientService, now: BrokerConfig) -> None:
    sends = service.sends
    sends.rejects_transactions = now.reject_transactions
    sends.gate.queue_wait_ms = now.send_queue_wait_ms
    sends.gate.page_cache_busy_ms = now.page_cache_busy_ms


def _ask(service: ClientService, now: BrokerConfig) -> None:
    service.filters.by_properties = now.enable_property_filter
    service.changes.auto_create = now.auto_create_topics
