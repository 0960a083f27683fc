"""The set as controllers get it when it is adopted, and again where another run wrote over it."""

from __future__ import annotations

from typing import Any

from brokers.changeover.order import Kind, Order
from infra.changeover.set_fields import set_again, waits_for_brokers


def orders() -> list[Order]:
    return [
        Order("c", Kind.CONTROLLERS, "r", "a", f"h{n}:1", "h1:1", n, 2, ("k:1",), f"h{n}:1;x", 3)
        for n in (1, 2)
    ]


def here(*replicas: dict[str, Any], imported: bool = True) -> dict[str, Any]:
    numbers = {"next_broker_id": 5, "highest_epoch_seen": 3, "sync_state_set_epoch": 8}
    return {"imported": imported, "replicas": list(replicas), **numbers}


def test_the_orders_that_a_master_took_count_whatever_another_run_wrote() -> None:
    fields = set_again(orders(), here())
    assert [one["register_check_code"] for one in fields["replicas"]] == ["h1:1;x", "h2:1;x"]
    assert (fields["master_epoch"], fields["evidence_epoch"]) == (3, 3)
    assert (fields["next_broker_id"], fields["sync_state_set_epoch"]) == (5, 9)
    assert fields["master_broker_id"] is None and fields["sync_state_set"] == [1, 2]


def test_a_set_waits_until_one_of_its_brokers_was_heard() -> None:
    never, heard = (
        {"alive": False, "reason": "never_seen"},
        {"alive": True, "reason": "heartbeat"},
    )
    assert waits_for_brokers(here(never, never))
    assert not waits_for_brokers(here(never, heard))
    assert not waits_for_brokers(here(never, imported=False)), "somebody was elected since"
