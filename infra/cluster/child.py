"""One process that the supervisor answers for: what is known of it, and what others are shown.

Refuses to know when it is started, stopped or asked.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field
from typing import Any

from infra.cluster.plan import ProcessSpec
from infra.processes import children

FIRST_DELAY_S = 0.1
DELAY_S_MAX = 5.0
# a child that lived this long starts with a clean record
CALM_AFTER_S = 20.0
# a child that was never ready and died this often will not come up
START_DEATHS_MAX = 3


@dataclass(slots=True)
class RestartPolicy:
    """The record of one child's deaths."""

    deaths_in_a_row: int = 0
    ever_ready: bool = False

    def was_ready(self) -> None:
        self.ever_ready = True

    def died(self, lived_s: float) -> float | None:
        """Seconds until the next start; None: give up, it never came up."""
        self.deaths_in_a_row = 1 if lived_s >= CALM_AFTER_S else self.deaths_in_a_row + 1
        if not self.ever_ready and self.deaths_in_a_row >= START_DEATHS_MAX:
            return None
        if self.deaths_in_a_row == 1:
            return 0.0
        return min(DELAY_S_MAX, FIRST_DELAY_S * 2 ** (self.deaths_in_a_row - 2))


@dataclass(slots=True)
class Child:
    """States: starting, ready, restarting, held (stopped on request), failed (gave up), stopped.
    Times are monotonic s.
    """

    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    started_at: float
    state: str = "starting"
    ready_after_s: float = 0.0
    restarts: int = 0
    next_start: float = 0.0
    asked_at: float = 0.0
    last_exit: int | None = None
    # where the output of this start begins in its file
    output_from: int = 0
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    # when this start was heard of last; None: never yet
    beat_at: float | None = None
    # how many times the usual limit it may be silent
    patience: int = 1
    # this start was asked to end in order: asked twice, it would not wait for its clients
    leaving: bool = False

    def how_it_ended(self) -> str:
        """In words."""
        code = self.last_exit
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def public(self) -> dict[str, Any]:
        """The entry in cluster.json. `stamp` distinguishes this process from a later one with the
        same pid.
        """
        alive = self.process.returncode is None
        config = self.spec.config
        return {
            "name": self.spec.name,
            "kind": self.spec.kind,
            "state": self.state,
            "leaving": self.leaving and alive,
            "pid": self.process.pid if alive else None,
            "stamp": children.start_stamp(self.process.pid) if alive else None,
            "address": config.get("advertise") or self.spec.address,
            "status_address": self.spec.address,
            "ha_address": config.get("ha_advertise"),
            "store_dir": config.get("store_dir"),
            "restarts": self.restarts,
            "last_exit": self.last_exit,
        }
