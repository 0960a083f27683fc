"""The blows at controllers, Kafka and snapshots, one after the other on three controllers and three
Kafka nodes.

Responsible for: which blows there are and in which order, the proof at the end. Refuses to know:
what a blow does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import blows
from tests.chaos.progress import Progress
from tests.chaos.stage import Stage
from tests.chaos.verdict import Row
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.local_cluster import LocalCluster


@dataclass(frozen=True, slots=True)
class Blow:
    """`calm`: no send may fail while it happens."""

    name: str
    line: str
    strike: Callable[[Stage], str]
    calm: bool = False


BLOWS = (
    Blow(
        "controller-killed", "kill -9 of the active controller", blows.controller_killed, calm=True
    ),
    Blow(
        "controller-paused",
        "the active controller stands still for 20 s",
        blows.controller_paused,
        calm=True,
    ),
    Blow(
        "controller-and-master",
        "active controller and master die in the same instant",
        blows.controller_and_master,
    ),
    Blow("controllers-two", "two of three controllers are gone", blows.two_of_three, calm=True),
    Blow(
        "controllers-all",
        "no controller for 60 s, brokers serve on",
        blows.all_controllers,
        calm=True,
    ),
    Blow(
        "snapshots",
        "the snapshots of a controller are destroyed while it is down",
        blows.snapshots_corrupted,
        calm=True,
    ),
    Blow(
        "log-leader-killed",
        "kill -9 of the Kafka node that leads the log",
        blows.log_leader_killed,
        calm=True,
    ),
    Blow(
        "log-leader-paused",
        "the Kafka node that leads the log stands still for 20 s",
        blows.log_leader_paused,
        calm=True,
    ),
    Blow(
        "kafka-restarted",
        "the Kafka nodes are restarted one after the other",
        blows.kafka_restarted,
        calm=True,
    ),
    Blow("kafka-paused", "all of Kafka stands still for 30 s", blows.kafka_paused, calm=True),
    Blow("kafka-killed", "kill -9 of all of Kafka", blows.kafka_killed, calm=True),
    Blow(
        "worker",
        "the stream processor loses its partition again and again",
        blows.worker_stuck,
        calm=True,
    ),
    Blow("sets", "1000 broker sets register at once over real sockets", blows.thousand_sets),
)


def play_blows(
    picked: Sequence[Blow], home: Path, kafka_nodes: int, rows: list[Row], progress: Progress
) -> str | None:
    """Add a row for each blow; what is wrong besides, in one line."""
    cluster = LocalCluster(home / "regent", "--controllers", "3", "--kafka-nodes", str(kafka_nodes))
    try:
        progress.say(cluster.up().rstrip())
        stage = Stage(cluster, home)
        for one in picked:
            progress.begins(one.name, one.line)
            rows.append(stage.play(one.name, one.strike, one.calm))
            progress.ended(rows[-1])
        return proof(stage)
    except AssertionError as error:
        return str(error).splitlines()[0]
    finally:
        cluster.end()


def proof(stage: Stage) -> str | None:
    """Every decision was taken once, no outcome is missing, and a fold of the log gives every
    published digest.
    """
    wait_published(stage.cluster)
    outcomes = proven_outcomes(stage.cluster.bootstrap)
    taken: dict[bytes, int] = {}
    for one in outcomes:
        if one.accepted and one.changes:
            taken[one.command_id] = taken.get(one.command_id, 0) + 1
    wrong = [command_id.hex() for command_id in stage.asked if taken.get(command_id) != 1]
    return (
        (f"{len(wrong)} decisions were not taken exactly once, first {wrong[0]}") if wrong else None
    )
