"""The master fails while messages wait for a time, halves for their end, popped ones for their
acknowledgement: each is counted as lost, early, late and twice by its own application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.features.pops import Pops
from infra.features.transactions import Transactions
from infra.features.waiting import Delayed, Timed
from tests.chaos.brokers_hit import master_killed, master_paused
from tests.chaos.line import Line

ASKED_SOON: Mapping[str, Any] = {
    "transaction_timeout_ms": 2_000,
    "transaction_check_interval_ms": 2_000,
}
"""What a producer left open is asked about within a run."""
BLOWS = {
    "killed": ("kill -9 of the master", master_killed),
    "paused": ("the master stands still for 5 s and wakes", master_paused),
}
FEATURES = {
    "timed": ("messages wait for a time of delivery", Timed),
    "delayed": ("messages wait for a delay level", Delayed),
    "transactions": ("halves wait for their end or a question", Transactions),
    "pops": ("popped messages wait for their acknowledgement", Pops),
}

LINES = tuple(
    Line(f"{name}-{blow}", f"{what} while {text}", strike, settings=ASKED_SOON, feature=use)
    for name, (text, use) in FEATURES.items()
    for blow, (what, strike) in BLOWS.items()
)
