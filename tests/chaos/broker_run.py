"""The lines of brokers from first to last: a cluster for those that can share one, a row for each
line.

Refuses to know what the lines do and what becomes of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.cluster.data_folder import DataFolder
from tests.chaos.armed import starter
from tests.chaos.broker_stage import FAST_TIMERS, BrokerStage, flags
from tests.chaos.held_disks import HeldDisks
from tests.chaos.line import Line, by_cluster
from tests.chaos.network import Network
from tests.chaos.progress import Progress
from tests.chaos.verdict import Row
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.local_cluster import LocalCluster

CLUSTER, PLACES = "regent", "places.json"
BROKERS = ("broker-a-1", "broker-a-2", "broker-a-3")


def play_lines(
    lines: Sequence[Line],
    home: Path,
    network: Network | None,
    runs: int | None,
    rows: list[Row],
    progress: Progress,
) -> str | None:
    """Add a row for each line; what is wrong besides, in one line. A cluster that is not as it
    should be hides no other.
    """
    problems: list[str] = []
    for number, group in enumerate(by_cluster(lines)):
        played = len(rows)
        problem = _play_group(group, home / f"brokers-{number}", network, runs, rows, progress)
        if problem:
            not_played = [line.name for line in group[len(rows) - played :]]
            progress.left_out(len(not_played))
            problems.append(f"{problem} (not played: {', '.join(not_played) or 'none'})")
    return "; ".join(problems) or None


def _play_group(
    lines: Sequence[Line],
    home: Path,
    network: Network | None,
    runs: int | None,
    rows: list[Row],
    progress: Progress,
) -> str | None:
    home.mkdir()
    shipped = lines[0].shipped
    # A process in another network cannot be heard by the supervisor, which ends who stands still.
    network = None if shipped else network
    stores = {name: DataFolder(home / CLUSTER).data_of(name) for name in BROKERS}
    disks = HeldDisks(home, stores) if shipped else None
    (home / PLACES).write_text(json.dumps(_places(lines[0], home, network, disks)))
    # What stands still in the other clusters wakes again: their lines are about who wakes.
    watched = () if shipped else ("--watchdog-ms", "0")
    cluster = LocalCluster(home / CLUSTER, *flags(network, home / PLACES), *watched)
    stage = BrokerStage(cluster, home, network, disks)
    try:
        progress.say(cluster.up().rstrip())
        for line in lines:
            progress.begins(line.name, line.text)
            rows.append(stage.play(line, runs))
            progress.ended(rows[-1])
        wait_published(cluster)
        proven_outcomes(cluster.bootstrap)
    except AssertionError as error:
        progress.say(str(error))
        return str(error).splitlines()[0]
    finally:
        cluster.end()
    return None


def _places(
    line: Line, home: Path, network: Network | None, disks: HeldDisks | None
) -> dict[str, dict[str, Any]]:
    """Where the processes run, and how its brokers are started."""
    places = network.places() if network else {}
    timers = {} if line.shipped else FAST_TIMERS
    places["broker"] = {"config": {**timers, **line.settings}}
    for name in BROKERS:
        words = starter(home) if line.armed else disks.prefix(name) if disks else []
        place = places.setdefault(name, {})
        place["prefix"] = [*place.get("prefix", ()), *words]
    return places
