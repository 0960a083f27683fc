"""One moment of a broker, gathered from its parts.

Responsible for: which part knows what. Refuses to know: how the answer is sent, what the parts do.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from brokers.clock import Clock
from brokers.membership.place import PlaceInSet
from brokers.pages.broker_pages import BrokerPages
from brokers.pages.figures import figures
from brokers.process.acting_parts import Acting
from brokers.process.config import BrokerConfig
from brokers.remoting.addresses import split_address
from brokers.remoting.limits import Limits
from brokers.replica.put_rules import AckMode
from brokers.replica.replica_port import Replica
from brokers.reporting.event_reporter import EventReporter
from brokers.service.admin import BrokerStatus
from brokers.service.client_service import ClientService
from brokers.service.metadata.permission import BrokerPermission
from brokers.service.reading.repair import Repairs
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.runtime_table import StoreFacts, WorkFacts, runtime_table
from brokers.store.files.disk_space import used_ratio
from brokers.store.store import MessageStore


def read_status(
    config: BrokerConfig,
    replica: Replica,
    membership: PlaceInSet,
    roles: RoleView,
    service: ClientService,
    forwarder: Forwarder,
    reporter: EventReporter,
    repairs: Repairs,
    *,
    topics: int,
    started_ms: int,
    leaves_in_ms: int | None,
    acting: Acting | None,
) -> BrokerStatus:
    """The status now. Ready: registered, and in a role that serves or forwards."""
    store, core, current = replica.store, replica.core, roles.current
    return BrokerStatus(
        ready=membership.registered.is_set() and current.role != "FENCED",
        cluster_name=config.cluster_name,
        broker_name=config.broker_name,
        broker_id=membership.broker_id,
        address=config.advertised,
        ha_address=config.ha_advertised,
        incarnation=replica.incarnation,
        clean=replica.clean(),
        role=current.role,
        master_id=current.master_id,
        master_address=current.master_address,
        master_epoch=current.master_epoch,
        epochs=tuple((entry.epoch, entry.start_offset) for entry in replica.epochs.entries),
        sync_state_set=core.sync_state_set if core else (),
        sync_state_set_epoch=core.set_epoch if core else 0,
        log_min=store.log_min,
        log_end=store.log_end,
        confirm_offset=core.confirm_offset if core else store.confirm_offset,
        dispatched_offset=store.dispatched_offset,
        controller=membership.leader,
        ack_mode=ack_mode(config),
        async_learner=config.async_learner,
        write_refusal=replica.write_refusal(),
        store_refusal=store.writable(),
        **_counted(service, forwarder, reporter, repairs),
        queue_ends_behind=service.queue_ends_behind,
        start_passed_over=len(store.recovery.damaged),
        topics=topics,
        started_ms=started_ms,
        leaves_in_ms=leaves_in_ms,
        acts=roles.acting,
        waits_for=None if acting is None else acting.shell.core.waits_for or None,
    )


def config_facts(config: BrokerConfig, status: BrokerStatus) -> dict[str, str]:
    """Lines of 26 that are no setting of ours, under RocketMQ's names."""
    host, port = split_address(config.advertised)
    ha_host, ha_port = split_address(config.ha_advertised)
    return {
        "brokerId": str(status.role_id),
        "brokerIP1": host,
        "brokerIP2": ha_host,
        "brokerRole": _java_role(config, status),
        "enableControllerMode": str(bool(config.controllers)).lower(),
        "haListenPort": str(ha_port),
        "listenPort": str(port),
        "storePathCommitLog": str(config.store_dir / "commitlog"),
    }


def ack_mode(config: BrokerConfig) -> str:
    """When a send is answered with success, in a word."""
    if config.by_majority:
        return (
            "majority" if config.majority_flush == "before_acknowledged" else "majority, unflushed"
        )
    return AckMode(config.all_ack, config.copies_wanted).label


def _java_role(config: BrokerConfig, status: BrokerStatus) -> str:
    if config.broker_role is not None:
        return config.broker_role
    if config.by_majority and status.role == "MASTER":
        return "SYNC_MASTER"
    return "ASYNC_MASTER" if status.role == "MASTER" else "SLAVE"


def make_pages(
    config: BrokerConfig,
    service: ClientService,
    store: MessageStore,
    status: Callable[[], BrokerStatus],
    permission: BrokerPermission,
    clock: Clock,
) -> BrokerPages:
    """What this broker shows over HTTP."""
    who = {"cluster": config.cluster_name, "node_type": "broker", "node_id": config.broker_name}
    return BrokerPages(
        config.http_listen,
        {**who, **config.metrics_labels},
        status,
        lambda: figures(service, store, status(), permission.allowed, clock.wall_ms()),
    )


def read_runtime(
    store: MessageStore, service: ClientService, status: BrokerStatus, wall_ms: int
) -> dict[str, str]:
    """The table of 28."""
    disk = os.statvfs(store.root)
    facts = StoreFacts(
        log_min=store.log_min,
        log_end=store.log_end,
        dispatched=store.dispatched_offset,
        durable=store.durable_offset,
        log_path=str(store.root / "commitlog"),
        log_used=used_ratio(store.root / "commitlog"),
        queues_used=used_ratio(store.root / "consumequeue"),
        disk_total=disk.f_blocks * disk.f_frsize,
        disk_free=disk.f_bavail * disk.f_frsize,
        earliest_ms=store.first_store_ms(),
        delayed=service.delivery.progress(),
    )
    return runtime_table(
        facts,
        service.statistics,
        active=status.ready,
        started_ms=status.started_ms,
        wall_ms=wall_ms,
        work=_work(service, status),
    )


def _work(service: ClientService, status: BrokerStatus) -> WorkFacts:
    timers = service.timers
    return WorkFacts(
        {
            "send": status.waiting_sends,
            "pull": status.held_pulls,
            "ack": service.puts.waiting,
            "endTransaction": service.transactions.waiting,
        },
        Limits().in_flight_requests,
        timers.late_ms,
        timers.behind if timers.enabled else 0,
        0 if timers.waiting is None else timers.waiting.total,
    )


def _counted(
    service: ClientService, forwarder: Forwarder, reporter: EventReporter, repairs: Repairs
) -> dict[str, int]:
    return {
        "records_damaged": repairs.damaged,
        "records_refused": repairs.refused,
        "records_repaired": repairs.repaired,
        "slots_taken": repairs.taken,
        "waiting_sends": service.sends.waiting,
        "held_pulls": service.pulls.held.count,
        "forwarded": forwarder.forwarded,
        "events_reported": reporter.reported,
        "events_dropped": reporter.dropped,
    }
