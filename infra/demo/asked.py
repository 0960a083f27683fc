"""What the demo asks of history: explain, history, state and verify, from the Delta tables.

The questions are asked with the very commands of the command line. Refuses to know the answers'
content.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from infra.cluster import view
from infra.cluster.data_folder import DataFolder
from infra.cluster.plan import BROKER_SET
from infra.demo import expected
from infra.problems import Problem
from infra.processes import children
from lakehouse.answers import decisions, explain, state_at
from lakehouse.errors import LakehouseError
from lakehouse.landing import status as landing_status
from lakehouse.tables.lake import open_lake

LAND_LIMIT_MS = 300_000
COMMAND_LIMIT_S = 300.0
# where a failover ends for the one who sends
LAST_PHASE = "first message acknowledged"


@dataclass(frozen=True, slots=True)
class Answer:
    """One command, what it printed, how it ended."""

    command: str
    text: str
    code: int
    seconds: float


def wait_landed(folder: DataFolder) -> float:
    """Wait until everything that is in the log now stands in the tables; gives the seconds."""
    began = time.monotonic()
    ends = view.log_ends(folder.running_cluster()["kafka"])
    if not ends:
        raise Problem("Kafka does not answer", f"See the logs in {folder.logs}.")
    try:
        landing_status.wait_for_landed(folder.landing, ends, LAND_LIMIT_MS)
    except LakehouseError as error:
        raise Problem(
            f"the log has not landed: {error}", f"See {folder.log_of('land')}."
        ) from error
    return time.monotonic() - began


def ask(folder: DataFolder, *words: str) -> Answer:
    """Run one verb of the command line and keep what it prints; it ends with this process."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "infra", *words, "--dir", str(folder.root)],
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
        preexec_fn=children.tied(),
    )
    text = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    return Answer(
        f"regent {' '.join(words)}",
        text.rstrip("\n"),
        done.returncode,
        round(time.monotonic() - began, 2),
    )


def counted(folder: DataFolder) -> dict[str, Any]:
    """The kinds of outcomes that stand in Delta, and whether each that the steps cause is there."""
    counts = decisions.outcome_counts(open_lake(folder.tables))
    return {"counts": counts, "expected": expected.check(counts)}


def election_offsets(folder: DataFolder) -> list[int]:
    """Offsets of the commands that made a master, in order."""
    model = decisions.history(open_lake(folder.tables), BROKER_SET)
    return [
        entry["offset"]
        for entry in model["decisions"]
        if any(change["kind"] == "MasterElected" for change in entry["changes"])
    ]


def phases_after(folder: DataFolder, epoch: int, at_ms: int) -> list[dict[str, Any]]:
    """What happened in the failover to `epoch`, in ms after the blow at `at_ms`, up to the first
    acknowledged message.
    """
    (election,) = explain.explain(open_lake(folder.tables), BROKER_SET, epoch)["elections"]
    found = []
    for phase in election["phases"]:
        found.append({"phase": phase["phase"], "after_ms": phase["at_ms"] - at_ms})
        if phase["phase"] == LAST_PHASE:
            break
    return sorted(found, key=lambda one: one["after_ms"])


def last_state(folder: DataFolder) -> dict[str, Any]:
    """The state after the last landed command, folded from bronze."""
    return state_at.state_at(open_lake(folder.tables))
