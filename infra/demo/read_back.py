"""Read everything back: every queue from its first message, the replicas' logs from their files.

Refuses to know how the messages came there.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from infra.cluster import replica_logs
from infra.cluster.running import DemoCluster
from infra.demo.load import QUEUES, TOPIC, Load
from infra.problems import Problem
from infra.workload.client import CallFailed
from infra.workload.consumer import CORRUPT, read_records
from infra.workload.ledger import compare, read_ledger
from infra.workload.read_back import read_topic


def check_messages(load: Load) -> dict[str, Any]:
    """The ledger against what is stored and against what the consumer got."""
    began = time.monotonic()
    try:
        queues = asyncio.run(read_topic(load.name_servers, TOPIC, "regent-demo-check", QUEUES))
    except CallFailed as failed:
        raise Problem(f"reading back failed at {failed.address}: {failed.reason}", "") from failed
    stored = [record for queue in queues for record in queue.records]
    ledger = read_ledger(load.ledger)
    result = compare(ledger, (one for one in stored if one[2] != CORRUPT))
    consumed = {sequence for _, _, sequence in read_records(load.consumed)}
    return {
        "calls": ledger.calls,
        "messages": len(ledger.sequences),
        "acknowledged": len(ledger.acknowledged),
        "unknown_calls": ledger.unknown_calls,
        "stored": len(stored),
        "lost": len(result.lost),
        "lost_sequences": list(result.lost[:20]),
        "misplaced": result.misplaced,
        "duplicated": result.duplicated,
        "out_of_order": result.out_of_order,
        "never_sent": result.never_sent,
        "corrupt": sum(one[2] == CORRUPT for one in stored),
        "consumed": len(consumed),
        "acknowledged_not_consumed": len(ledger.acknowledged.keys() - consumed),
        "seconds": round(time.monotonic() - began, 2),
    }


def check_replicas(cluster: DemoCluster) -> dict[str, Any]:
    """All replicas' logs up to the lowest confirm offset, byte for byte."""
    brokers = cluster.processes("broker")
    confirmed = []
    for one in brokers:
        status = cluster.broker_status(one["address"])
        if status is None:
            raise Problem(
                f"{one['name']} does not answer", f"See {cluster.folder.log_of(one['name'])}."
            )
        confirmed.append(int(status["confirm_offset"]))
    folders = {one["name"]: Path(one["store_dir"]) / "commitlog" for one in brokers}
    result = replica_logs.compare(folders, min(confirmed))
    return {
        "replicas": list(result.replicas),
        "from_offset": result.start,
        "to_offset": result.end,
        "bytes": result.end - result.start,
        "equal": result.equal and result.end > result.start,
        "first_difference": result.first_difference,
    }
