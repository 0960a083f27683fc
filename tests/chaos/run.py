"""
Process faults under load, on real processes and a Kafka of three nodes (`make chaos`).

Responsible for: which blows, in which order, the proof at the end, the table and the exit code.
Refuses to know: what a blow does.

    make chaos                               all, about a quarter of an hour
    make chaos ARGS=--list                   what there is
    make chaos ARGS="controller kafka"       those whose names begin so

Exit codes: 0 nothing lost and everything as it should be; 1 not; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from infra.cli_status import table  # noqa: E402
from tests.chaos import blows  # noqa: E402
from tests.chaos.stage import HEAD, Row, Stage  # noqa: E402
from tests.support.decision_log import proven_outcomes, wait_published  # noqa: E402
from tests.support.local_cluster import LocalCluster  # noqa: E402


@dataclass(frozen=True, slots=True)
class Blow:
    """`calm`: no send may fail while it happens."""

    name: str
    line: str
    strike: Callable[[Stage], str]
    calm: bool = False


BLOWS = (
    Blow("controller-killed", "kill -9 of the active controller", blows.controller_killed, calm=True),
    Blow("controller-paused", "the active controller stands still for 20 s", blows.controller_paused, calm=True),
    Blow("controller-and-master", "active controller and master die in the same instant", blows.controller_and_master),
    Blow("controllers-two", "two of three controllers are gone", blows.two_of_three, calm=True),
    Blow("controllers-all", "no controller for 60 s, brokers serve on", blows.all_controllers, calm=True),
    Blow("snapshots", "the snapshots of a controller are destroyed while it is down", blows.snapshots_corrupted, calm=True),
    Blow("log-leader-killed", "kill -9 of the Kafka node that leads the log", blows.log_leader_killed, calm=True),
    Blow("log-leader-paused", "the Kafka node that leads the log stands still for 20 s", blows.log_leader_paused, calm=True),
    Blow("kafka-restarted", "the Kafka nodes are restarted one after the other", blows.kafka_restarted, calm=True),
    Blow("kafka-paused", "all of Kafka stands still for 30 s", blows.kafka_paused, calm=True),
    Blow("kafka-killed", "kill -9 of all of Kafka", blows.kafka_killed, calm=True),
    Blow("worker", "the stream processor loses its partition again and again", blows.worker_stuck, calm=True),
    Blow("sets", "1000 broker sets register at once over real sockets", blows.thousand_sets),
)


def chosen(names: Sequence[str]) -> list[Blow]:
    """Those whose names begin with one of `names`; all when none is given."""
    return [one for one in BLOWS if not names or any(one.name.startswith(name) for name in names)]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description="Process faults under load; nothing acknowledged may be lost.")
    parser.add_argument("names", nargs="*", help="beginnings of names (default: all)")
    parser.add_argument("--list", action="store_true", help="the blows, and end")
    parser.add_argument("--kafka-nodes", type=int, choices=(1, 3), default=3)
    parser.add_argument("--keep", action="store_true", help="leave the data folder and its logs")
    flags = parser.parse_args(words)
    picked = chosen(flags.names)
    if flags.list or not picked:
        print("\n".join(table([(one.name, one.line) for one in BLOWS])))
        return 0 if flags.list else 2
    home = Path(tempfile.mkdtemp(prefix="regent-chaos-"))
    cluster = LocalCluster(home / "regent", "--controllers", "3", "--kafka-nodes", str(flags.kafka_nodes))
    rows: list[Row] = []
    problem: str | None = None
    try:
        print(cluster.up(), end="", flush=True)
        stage = Stage(cluster, home)
        for one in picked:
            print(f"{one.name}: {one.line}", file=sys.stderr, flush=True)
            rows.append(stage.play(one.name, one.strike, one.calm))
            print("  " + " · ".join(rows[-1].cells()[1:]), file=sys.stderr, flush=True)
        problem = proof(stage)
    except AssertionError as error:
        problem = str(error).splitlines()[0]
    finally:
        cluster.end()
        if flags.keep:
            print(f"kept: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    print("\n".join(table([HEAD, *(row.cells() for row in rows)])))
    bad = [row.name for row in rows if row.problem]
    lost = sum(row.lost for row in rows)
    print(f"{sum(row.acknowledged for row in rows)} messages acknowledged, {lost} lost" + (f"; {problem}" if problem else "; history proven"))
    if bad:
        print(f"not as it should be: {', '.join(bad)}")
    return 1 if bad or lost or problem or not rows else 0


def proof(stage: Stage) -> str | None:
    """Every decision was taken once, no outcome is missing, and a fold of the log gives every published digest."""
    wait_published(stage.cluster)
    outcomes = proven_outcomes(stage.cluster.bootstrap)
    taken: dict[bytes, int] = {}
    for one in outcomes:
        if one.accepted and one.changes:
            taken[one.command_id] = taken.get(one.command_id, 0) + 1
    wrong = [command_id.hex() for command_id in stage.asked if taken.get(command_id) != 1]
    return f"{len(wrong)} decisions were not taken exactly once, first {wrong[0]}" if wrong else None


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Threads of Kafka clients need not be waited for.
