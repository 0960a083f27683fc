"""How worlds are plagued: which faults, how often, and the directed worlds that bring together
what seldom meets.

Refuses to know: what a fault does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EVERY_MS = (150, 1_800)


@dataclass(frozen=True, slots=True)
class Mix:
    """How a world is plagued. `weights`: fault kind to how often; empty: drawn by the seed, so that
    rare combinations meet partners that are frequent somewhere. `faulty_ms`: for how long, None: as
    usual.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    every_ms: tuple[int, int] = EVERY_MS
    stall_one_in: int | None = None
    odd: bool = True
    faulty_ms: int | None = None


DEATHS = {"kill_master": 4, "kill_broker": 3, "isolate": 2, "pause_broker": 2, "restart_master": 1}
OFTEN_MS = (80, 900)
MIXES: Mapping[str, Mix] = {
    "unseen": Mix({"lose_sight": 1}, every_ms=(1_500, 3_000), stall_one_in=0),
    "deaths": Mix(
        {"kill_broker": 3, "restart_master": 2, "designate": 2, "kill_inside": 3, "kill_leader": 1},
        every_ms=(40, 500),
    ),
    "power": Mix(DEATHS | {"lose_power": 5}, every_ms=OFTEN_MS, odd=False),
    "errors": Mix(
        {"lose_power": 4, "wipe_disk": 2, "kill_master": 2, "disk_error": 4, "restart_master": 1},
        every_ms=(300, 1_500),
    ),
    "disks": Mix(DEATHS | {"wipe_disk": 4}, every_ms=OFTEN_MS, odd=False),
    "slow": Mix(
        {
            "power_within_write": 4,
            "bit_flip": 3,
            "disk_full": 3,
            "slow_disk": 2,
            "append_hangs": 2,
            "kill_master": 2,
            "lose_power": 2,
        },
        every_ms=(200, 1_200),
    ),
    "identity": Mix(DEATHS | {"identity_alone": 3, "lose_file": 2}, every_ms=OFTEN_MS, odd=False),
    "cuts": Mix(
        {"suspect": 3, "pause_broker": 2, "isolate": 2, "cut": 2, "designate": 1},
        every_ms=(100, 900),
        stall_one_in=15,
    ),
    "copies": Mix(DEATHS | {"keep_a_copy": 4, "older_copy": 4}, every_ms=OFTEN_MS, odd=False),
    "strays": Mix(
        {
            "late_notice": 3,
            "repeated_notice": 2,
            "late_heartbeat": 2,
            "repeated_heartbeat": 2,
            "kill_master": 3,
            "designate": 3,
            "isolate": 1,
        },
        every_ms=(80, 700),
    ),
    "blackout": Mix(
        {"blackout": 2, "kill_master": 2, "kill_broker": 2, "lose_power": 1},
        every_ms=(300, 1_500),
        odd=False,
    ),
    "damage": Mix(
        {"bit_flip": 4, "power_within_write": 4, "kill_broker": 1},
        every_ms=(300, 1_200),
        stall_one_in=0,
    ),
    "unheard": Mix(
        {"unheard": 3, "kill_broker": 3, "lose_power": 2, "isolate": 1},
        every_ms=(200, 1_500),
        odd=False,
    ),
    "crowded": Mix(
        {
            "disk_crowded": 4,
            "broker_clock_jump": 3,
            "isolate": 2,
            "cut": 2,
            "wipe_disk": 2,
            "kill_broker": 1,
            "pause_broker": 1,
        },
        every_ms=(200, 1_500),
        stall_one_in=0,
    ),
    "leaders": Mix(
        {"kill_leader": 4, "pause_controller": 3, "journal_stall": 2, "kill_both": 2},
        every_ms=(100, 900),
        stall_one_in=15,
    ),
    "cleaned": Mix(
        {"clean": 3, "kill_broker": 2, "kill_master": 2, "isolate": 1, "lose_power": 1},
        every_ms=(200, 1_500),
        odd=False,
    ),
    "lasting": Mix(
        {"lasting_cut": 4, "kill_master": 1, "kill_broker": 1},
        every_ms=(400, 1_500),
        odd=False,
        stall_one_in=0,
        faulty_ms=50_000,
    ),
    "doubted": Mix(
        {"log_tail_lost": 2, "kill_master": 3, "kill_broker": 2, "isolate": 2, "lose_power": 1},
        every_ms=(200, 1_500),
        odd=False,
    ),
    "handed": Mix(
        {
            "hand_over": 5,
            "stop_in_order": 2,
            "kill_master": 1,
            "pause_broker": 1,
            "isolate": 1,
            "cut": 1,
            "lose_power": 1,
            "suspect": 1,
        },
        every_ms=(60, 700),
        stall_one_in=0,
    ),
    "snapshots": Mix(
        {"wrong_snapshot": 3, "lose_snapshots": 2, "suspect": 3, "poll": 1, "restart_master": 1},
        every_ms=(80, 400),
    ),
}
"""Directed worlds: what meets too seldom when everything is mixed."""
DIRECTED_ONE_IN = 2


def mix_of(seed: int) -> Mix:
    """Every second world is a directed one, each kind in its turn."""
    return (
        Mix()
        if seed % DIRECTED_ONE_IN
        else list(MIXES.values())[seed // DIRECTED_ONE_IN % len(MIXES)]
    )
