"""The leader's document (request 19003) of a small cluster, for tests of what is made of it."""

from __future__ import annotations

from typing import Any


def replica(number: int, **changed: Any) -> dict[str, Any]:
    """A living replica in good order, but for what is changed."""
    return {
        "id": number,
        "address": f"h:{number}",
        "ha_address": f"h:{number + 1000}",
        "registered": True,
        "clean": True,
        "is_regent": True,
        "incarnation": f"life-{number}",
        "alive": True,
        "reason": "heartbeat",
        "epoch": 4,
        "max_offset": 900,
        "confirm_offset": 880,
        "silent_ms": 240,
        "priority": 2_147_483_647,
        **changed,
    }


def broker_set(**changed: Any) -> dict[str, Any]:
    """Three replicas: a master, a slave in sync, and an id that nobody claimed."""
    return {
        "cluster": "regent",
        "tombstone": False,
        "next_broker_id": 4,
        "master": 1,
        "master_epoch": 4,
        "sync_state_set": [1, 2],
        "sync_state_set_epoch": 9,
        "highest_epoch_seen": 4,
        "at_risk": False,
        "operator_needed": None,
        "imported": False,
        "unclean_members": [],
        "remembered": [],
        "uncertain": [],
        "master_restarted": False,
        "repeated_refusals": [
            {"code": 2003, "refusal": "INVALID_REPLICAS", "count": 17, "last_ms": 1_700_000_000_000}
        ],
        "replicas": [
            replica(1),
            replica(2),
            replica(3, registered=False, alive=False, reason="never_seen", silent_ms=-1),
        ],
        **changed,
    }


def document(**changed: Any) -> dict[str, Any]:
    """Two controllers, one set, rules 1 of 2 active."""
    return {
        "cluster_id": "regent-1",
        "term": 3,
        "leader": "c1",
        "leader_address": "h:9878",
        "rules_version": 1,
        "supported_rules": [1, 2],
        "settings": {
            "all": {},
            "effective": {"enableElectUncleanMaster": "false", "electMasterMaxRetryCount": "3"},
        },
        "controllers": [
            {
                "id": "c1",
                "address": "h:9878",
                "release": "0.2.0",
                "rules": [1, 2],
                "role": "active",
                "alive": True,
            },
            {
                "id": "c2",
                "address": "h:9879",
                "release": "0.1.0",
                "rules": [1],
                "role": "standby",
                "alive": True,
            },
        ],
        "applied_offset": 41,
        "digest": "ab" * 32,
        "sets": {"broker-a": broker_set()},
        **changed,
    }
