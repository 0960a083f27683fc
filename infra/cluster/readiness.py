"""Is a process ready? One question per kind of process, answered now, without waiting.

Refuses to know who asks and how often.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.cluster.plan import MASTER_ID, ClusterPlan, ProcessSpec
from infra.kafka import server
from infra.processes import status
from lakehouse.landing import status as landing_status

ASK_TIMEOUT_MS = 500


def is_ready(spec: ProcessSpec, plan: ClusterPlan, pid: int) -> bool:
    """Kafka: topics can be created. Landing: its status file says so and is of this process.
    Others: they say so.
    """
    if spec.kind == "kafka":
        return server.is_ready(plan.kafka["bootstrap.servers"], len(plan.of_kind("kafka")))
    if spec.kind == "land":
        return landing_is_ready(spec.config, pid)
    answer = status.ask_once(spec.address or "", ASK_TIMEOUT_MS, sets=False)
    return bool(answer and answer.get("ready"))


def answers(spec: ProcessSpec) -> bool:
    """It says anything at all."""
    return status.ask_once(spec.address or "", ASK_TIMEOUT_MS, sets=False) is not None


def has_place(spec: ProcessSpec) -> bool:
    """Others may be started: a broker knows its id. It may still wait for others: a set whose last
    master is not up yet has none. A master without controllers is awaited until it serves; its own
    word counts, for one that was adopted by controllers waits for the others.
    """
    answer = status.ask_once(spec.address or "", ASK_TIMEOUT_MS, sets=False)
    broker_id = None if answer is None else answer.get("broker_id")
    return broker_id is not None and broker_id != MASTER_ID


def landing_is_ready(config: Mapping[str, object], pid: int) -> bool:
    """The status file is written by process `pid` and says ready; an old file of a predecessor does
    not count.
    """
    try:
        found = landing_status.read_status(Path(str(config["work_dir"])))
    except ValueError:
        return False
    return found is not None and found.pid == pid and found.ready
