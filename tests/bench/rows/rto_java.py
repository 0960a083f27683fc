"""RTO of the released Java client, tuned and stock: `tests/interop/run.py` measures, this row shows
it beside its floors.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

from tests.bench.cluster import ROOT, BenchFailed
from tests.bench.figure import Bound, Figure, at_most, not_measured
from tests.bench.run_context import Bench
from tests.bench.samples import median

MESSAGES = 12_000
LIMIT_S = 420.0
ROW = "rto-java"
PEER = "Java RocketMQ is not run here"
NO_JAVA = 2
BOUNDS = {
    "tuned": (at_most(1.5), at_most(0.25), "0.23 to 1.7 s elsewhere, fast timers"),
    "default": (at_most(3.0), at_most(1.0), "6 to 38 s elsewhere"),
}
NAMES = {"tuned": "RTO, kill -9, tuned Java client", "default": "RTO, kill -9, stock Java client"}


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    bench.say(
        f"tests/interop with {MESSAGES} messages for each of two client settings, two kills each"
    )
    command = [
        sys.executable,
        str(ROOT / ("tests/interop/run.py")),
        "client",
        "--json",
        "--messages",
        str(MESSAGES),
    ]
    # A session of its own: Ctrl-C comes to it once, through this process, and it stops its own
    # cluster.
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, _ = child.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"tests/interop took longer than {LIMIT_S:.0f} s") from None
    finally:
        _end(child)
    if child.returncode == NO_JAVA:
        why = "tests/interop needs a JDK and the client's jars, see above"
        return [
            not_measured(ROW, NAMES[label], "s", why, required=True, floor=BOUNDS[label][0])
            for label in BOUNDS
        ]
    return figures(_document(output, child.returncode))


def _end(child: subprocess.Popen[str]) -> None:
    """It stops its cluster itself when it is asked to."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(120)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _document(output: str, code: int) -> dict[str, Any]:
    try:
        return dict(json.loads(output))
    except ValueError:
        raise BenchFailed(f"tests/interop ended with {code} and without results") from None


def figures(document: dict[str, Any]) -> list[Figure]:
    """The figures from its JSON document."""
    found = []
    for result in document["results"]:
        floor, goal, elsewhere = BOUNDS[result["settings"]]
        found += _outages(result, floor, goal, elsewhere)
    incomplete = (
        ""
        if document["complete"]
        else ("; NOT COMPLETE: not every message was acknowledged in the end")
    )
    acknowledged = sum(result["acknowledged"] for result in document["results"])
    lost = Figure(
        ROW,
        "acknowledged messages lost, Java client",
        "messages",
        document["lost"],
        floor=at_most(0),
        goal=at_most(0),
        required=True,
        note=f"of {acknowledged} acknowledged, as its consumer received them{incomplete}",
    )
    return [*found, lost]


def _outages(result: dict[str, Any], floor: Bound, goal: Bound, elsewhere: str) -> list[Figure]:
    """Longest and median: floors are for the one, goals for the other."""
    times = [one["rto_ms"] / 1000 for one in result["outages"]]
    failed = sum(one["failed_calls"] for one in result["outages"])
    gaps = max(one["longest_gap_ms"] for one in result["outages"]) / 1000
    name = NAMES[result["settings"]]
    note = (
        f"{len(times)} kills; {failed} failed calls, longest gap between answers {gaps:.2f} s; "
        f"{'; '.join(result['client']) or result['settings']}; Java RocketMQ: {elsewhere}"
    )
    return [
        Figure(ROW, f"{name}, median", "s", median(times), PEER, goal=goal, samples=times),
        Figure(
            ROW,
            f"{name}, longest",
            "s",
            max(times),
            PEER,
            floor=floor,
            required=True,
            note=note,
            samples=times,
            details=result,
        ),
    ]
