"""The lines of brokers from first to last: a cluster for each group of settings, a row for each
line.

Refuses to know what the lines do and what becomes of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.armed import starter
from tests.chaos.broker_stage import FAST_TIMERS, BrokerStage, flags
from tests.chaos.line import Line, by_settings
from tests.chaos.network import Network
from tests.chaos.progress import Progress
from tests.chaos.verdict import Row
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.local_cluster import LocalCluster

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
    for number, (settings, group) in enumerate(by_settings(lines)):
        played = len(rows)
        problem = _play_group(
            group, settings, home / f"brokers-{number}", network, runs, rows, progress
        )
        if problem:
            not_played = [line.name for line in group[len(rows) - played :]]
            progress.left_out(len(not_played))
            problems.append(f"{problem} (not played: {', '.join(not_played) or 'none'})")
    return "; ".join(problems) or None


def _play_group(
    lines: Sequence[Line],
    settings: Mapping[str, Any],
    home: Path,
    network: Network | None,
    runs: int | None,
    rows: list[Row],
    progress: Progress,
) -> str | None:
    home.mkdir()
    places = network.places() if network else {}
    places["broker"] = {"config": {**FAST_TIMERS, **settings}}
    for name in BROKERS if lines[0].armed else ():
        place = places.setdefault(name, {})
        place["prefix"] = [*place.get("prefix", ()), *starter(home)]
    (home / "places.json").write_text(json.dumps(places))
    # What stands still here wakes again: the lines are about who wakes.
    words = (*flags(network, home / "places.json"), "--watchdog-ms", "0")
    cluster = LocalCluster(home / "regent", *words)
    try:
        progress.say(cluster.up().rstrip())
        stage = BrokerStage(cluster, home, network)
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
