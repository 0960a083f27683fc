"""Which place counts when a broker starts: its own file's, or what a changeover made of it.

A replica changes over while it runs, and its file says the old place until somebody writes the new
one. A start by the old file alone would bring back the old master beside the new one: so the record
counts as long as the file says what it said then, and a file that says a third thing is refused.

Responsible for: that judgement, and the settings that go with a place.
Refuses to know: files, where settings come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.changeover.order import Kind, Lines, Order, Record

OF_FIXED = (
    "broker_id",
    "broker_role",
    "ha_master_address",
    "all_ack",
    "in_sync_replicas",
    "auto_in_sync_replicas",
    "enable_slave_acting_master",
    "enable_remote_escape",
    "skip_pre_online",
    "lock_in_strict_mode",
    "total_replicas",
)
"""Settings of sets without controllers, and what would contradict controllers."""
OF_CONTROLLERS = (
    "controllers",
    "all_ack",
    "min_in_sync_replicas",
    "async_learner",
    "sync_from_last_file",
    "broker_role",
    "ha_master_address",
)
"""Settings of sets with controllers, and what follows from another id than the file's."""


class PlaceContradicts(Exception):
    """The file says another place than the one this store has; the text has the way out."""


def counts(written: Lines, record: Record | None) -> bool:
    """Whether the record counts instead of what the file says. PlaceContradicts."""
    if record is None or _agrees(written, record.order):
        return False
    if written == record.lines:
        return True
    raise PlaceContradicts(
        f"the file of this broker says {text_of(written)}, its store belongs to a set with "
        f"{text_of(record.order.lines)}: write these lines, or change the set over "
        f"('regent controller {'release' if record.order.kind is Kind.CONTROLLERS else 'adopt'} "
        f"{record.order.broker_name}')"
    )


def _agrees(written: Lines, order: Order) -> bool:
    """Other controllers than in the order are its operator's wish."""
    if order.kind is Kind.CONTROLLERS:
        return written.broker_id is None and bool(written.controllers)
    return written == order.lines


def text_of(lines: Lines) -> str:
    """As it stands in a file."""
    if lines.broker_id is not None:
        return f"broker_id = {lines.broker_id}"
    return f"controllers = [{', '.join(map(repr, lines.controllers))}]".replace("'", '"')


def fields_of(given: Mapping[str, Any], order: Order) -> dict[str, Any]:
    """The settings that are in force with an order, of those that the file gives.

    As many replicas hold what is acknowledged as before: RocketMQ's inSyncReplicas becomes
    minInSyncReplicas, and back.
    """
    if order.kind is Kind.CONTROLLERS:
        kept = {name: value for name, value in given.items() if name not in OF_FIXED}
        place = {"controllers": list(order.controllers), "min_in_sync_replicas": order.copies}
        return {**kept, **place}
    kept = {name: value for name, value in given.items() if name not in OF_CONTROLLERS}
    return {**kept, "broker_id": order.broker_id, "in_sync_replicas": order.copies}
