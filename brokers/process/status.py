"""One moment of a broker, gathered from its parts.

Responsible for: which part knows what. Refuses to know: how the answer is sent, what the parts do.
"""

from __future__ import annotations

from brokers.membership.membership import Membership
from brokers.process.config import BrokerConfig
from brokers.process.event_reporter import EventReporter
from brokers.process.replica import LocalReplica
from brokers.replica.put_rules import AckMode
from brokers.service.admin import BrokerStatus
from brokers.service.client_service import ClientService
from brokers.service.reading.repair import Repairs
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView


def read_status(
    config: BrokerConfig,
    replica: LocalReplica,
    membership: Membership,
    roles: RoleView,
    service: ClientService,
    forwarder: Forwarder,
    reporter: EventReporter,
    repairs: Repairs,
    *,
    topics: int,
    started_ms: int,
    leaves_in_ms: int | None,
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
        incarnation=replica.boot.incarnation,
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
        ack_mode=AckMode(config.all_ack, config.in_sync_replicas).label,
        async_learner=config.async_learner,
        write_refusal=replica.write_refusal(),
        store_refusal=store.writable(),
        **_counted(service, forwarder, reporter, repairs),
        queue_ends_behind=service.queue_ends_behind,
        start_passed_over=len(store.recovery.damaged),
        topics=topics,
        started_ms=started_ms,
        leaves_in_ms=leaves_in_ms,
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
