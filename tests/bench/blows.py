"""What the rows about faults share: a blow, the client's recovery from it, and the ledger read back
at the end.

Refuses to know who is hit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from infra.workload.client import CallFailed
from infra.workload.consumer import CORRUPT
from infra.workload.ledger import Comparison, compare, read_ledger
from infra.workload.read_back import read_topic
from tests.bench.calls import NS_PER_MS, Recovery, recovery
from tests.bench.cluster import BenchFailed, Caller
from tests.bench.figure import Figure, at_most

QUEUES = 4
SEND_WITHIN_S = 60.0
CLIENT = "own client: route poll 200 ms, asks again after a failed call, timeout 500 ms"


@dataclass(frozen=True, slots=True)
class Blow:
    """One blow: when, at whom, what the client saw of it."""

    at_ns: int
    target: str
    seen: Recovery

    def document(self) -> dict[str, Any]:
        return {"target": self.target, **asdict(self.seen)}


def seen_by(caller: Caller, at_ns: int, target: str) -> Blow:
    """Wait until the caller is calm again and give what it saw of the blow up to now."""
    caller.wait_success_after(at_ns, SEND_WITHIN_S)
    caller.wait_calm()
    return Blow(at_ns, target, recovery(caller.calls(), at_ns, time.monotonic_ns()))


def failed_calls(caller: Caller, from_ns: int) -> int:
    """How many of its calls failed since then."""
    return sum(not call.ok and call.ended_ns >= from_ns for call in caller.calls())


def longest(blows: Sequence[Blow]) -> Blow:
    """The one that took longest, of several callers that saw the same."""
    return max(blows, key=lambda blow: blow.seen.rto_ms or 0.0)


def recovery_times(blows: Sequence[Blow]) -> list[float]:
    """RTO of each blow in s; 0 where no call failed. BenchFailed when a client never recovered."""
    times = []
    for blow in blows:
        if blow.seen.failed_calls and blow.seen.rto_ms is None:
            raise BenchFailed(f"the client did not recover from the blow at {blow.target}")
        times.append(round((blow.seen.rto_ms or 0.0) / 1000, 3))
    return times


def seconds_since(at_ns: int) -> float:
    return (time.monotonic_ns() - at_ns) / NS_PER_MS / 1000


def read_back(sending: Caller, name_server: str) -> tuple[Comparison, int]:
    """Everything stored against everything acknowledged; gives the comparison and how many were
    acknowledged.
    """
    ledger = read_ledger(sending.ledger)
    try:
        queues = asyncio.run(read_topic([name_server], sending.name, "regent-bench-check", QUEUES))
    except CallFailed as failed:
        raise BenchFailed(f"reading back failed at {failed.address}: {failed.reason}") from failed
    stored = (record for queue in queues for record in queue.records if record[2] != CORRUPT)
    return compare(ledger, stored), len(ledger.acknowledged)


def loss(row: str, sending: Caller, name_server: str) -> Figure:
    """The figure that must be 0 whatever was hit."""
    found, acknowledged = read_back(sending, name_server)
    return Figure(
        row,
        "acknowledged messages lost",
        "messages",
        len(found.lost),
        floor=at_most(0),
        goal=at_most(0),
        required=True,
        note=(
            f"of {acknowledged} acknowledged, read back from the log; {found.duplicated} stored "
            f"twice, {found.out_of_order} out of order"
        ),
    )
