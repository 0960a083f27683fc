"""Process faults under load, on real processes (`make chaos`): brokers, controllers, Kafka,
landing jobs.

Responsible for: which lines are played, the tables and the exit code. Refuses to know: what a line
does.

    make chaos                               all lines
    make chaos ARGS=--list                   what there is
    make chaos ARGS="brokers"                one group: brokers, control, landing
    make chaos ARGS="master kafka"           those whose names begin so
    make chaos ARGS="master-killed --runs 30 --json"

Exit codes: 0 nothing lost and everything as it should be (a line that was skipped is named); 1 not;
2 wrong usage; 130 it was interrupted, nothing of it runs any more, and what was seen by then is
told.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from infra.cli.status import table
from tests.chaos import (
    broker_lines,
    broker_run,
    control_run,
    java_lines,
    landing_lines,
    landing_run,
    network,
    stock_client,
)
from tests.chaos.broker_stage import CLIENT, HEARTBEAT_MS, SILENCE_MS
from tests.chaos.control_run import BLOWS, Blow
from tests.chaos.landing_lines import LandingLine
from tests.chaos.line import Line
from tests.chaos.progress import Progress
from tests.chaos.stage import RATE, SEND_TIMEOUT_MS
from tests.chaos.verdict import HEAD, Row
from tests.support.interruptible import interruptible
from tests.support.own_ports import take_own_ports

BROKERS, CONTROL, LANDING = "brokers", "control", "landing"
ABOUT = {
    BROKERS: (
        f"{CLIENT}; broker heartbeat {HEARTBEAT_MS} ms, silent after {SILENCE_MS} ms; RTO: first "
        "failed call to first success"
    ),
    CONTROL: f"own client: call timeout {SEND_TIMEOUT_MS} ms, {RATE} messages/s",
    LANDING: landing_run.ABOUT,
}
INTERRUPTED = 130


@dataclass(slots=True)
class Report:
    """What was seen: rows by group, in the order they were played. `problems`: what is wrong
    besides single rows.
    """

    rows: dict[str, list[Row]] = field(default_factory=lambda: {group: [] for group in ABOUT})
    problems: list[str] = field(default_factory=list)

    @property
    def played(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows if not row.skipped]

    @property
    def skipped(self) -> list[str]:
        return [row.name for rows in self.rows.values() for row in rows if row.skipped]

    @property
    def bad(self) -> list[str]:
        return [row.name for row in self.played if not row.is_good]

    @property
    def is_good(self) -> bool:
        return bool(self.played) and not self.bad and not self.problems

    def lines(self) -> list[str]:
        """The tables, and the sum of them."""
        told: list[str] = []
        for group, rows in self.rows.items():
            told += [ABOUT[group], *table([HEAD, *(row.cells() for row in rows)])] if rows else []
        acknowledged = sum(row.acknowledged for row in self.played)
        lost = sum(row.lost for row in self.played if not row.may_lose)
        told.append(
            f"{acknowledged} messages acknowledged, {lost} lost; "
            f"{'; '.join(self.problems) or 'history proven'}"
        )
        for what, names in (
            ("not as it should be", self.bad),
            ("skipped, so not shown", self.skipped),
        ):
            if names:
                told.append(f"{what}: {', '.join(names)}")
        return told

    def document(self) -> dict[str, Any]:
        groups = {
            group: {"about": ABOUT[group], "lines": [row.document() for row in rows]}
            for group, rows in self.rows.items()
        }
        return {
            "good": self.is_good,
            "problems": self.problems,
            "bad": self.bad,
            "skipped": self.skipped,
            **groups,
        }


def chosen(names: Sequence[str]) -> tuple[list[Line], list[Blow], list[LandingLine]]:
    """Those whose names, or whose group's name, begin with one of `names`; all when none is
    given.
    """

    def wanted(group: str, name: str) -> bool:
        return not names or group in names or any(name.startswith(one) for one in names)

    return (
        [one for one in broker_lines.LINES if wanted(BROKERS, one.name)],
        [one for one in BLOWS if wanted(CONTROL, one.name)],
        [one for one in landing_lines.LINES if wanted(LANDING, one.name)],
    )


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos",
        description=("Process faults under load; nothing acknowledged may be lost."),
    )
    parser.add_argument(
        "names",
        nargs="*",
        help=("beginnings of names, or a group: brokers, control, landing (default: all)"),
    )
    parser.add_argument("--list", action="store_true", help="the lines, and end")
    parser.add_argument(
        "--runs",
        type=int,
        help=("runs of each line of brokers and landing (default: as the line says)"),
    )
    parser.add_argument(
        "--kafka-nodes", type=int, choices=(1, 3), default=3, help=("for the group control")
    )
    parser.add_argument("--json", action="store_true", help="one document instead of tables")
    parser.add_argument("--keep", action="store_true", help="leave the data folder and its logs")
    flags = parser.parse_args(words)
    if flags.runs is not None and flags.runs < 1:
        parser.error("--runs begins with 1")
    return flags


def list_lines() -> None:
    for group, lines in (
        (BROKERS, [(one.name, f"{one.runs} ×", one.text) for one in broker_lines.LINES]),
        (CONTROL, [(one.name, "1 ×", one.line) for one in BLOWS]),
        (LANDING, [(one.name, f"{one.runs} ×", one.text) for one in landing_lines.LINES]),
    ):
        print(f"{group}:")
        print("\n".join(f"  {text}" for text in table(lines)))


def play(
    lines: Sequence[Line],
    blows: Sequence[Blow],
    landings: Sequence[LandingLine],
    flags: argparse.Namespace,
    home: Path,
    report: Report,
) -> None:
    """The lines of brokers in a network of their own where there may be one, the blows at what
    decides, then landing jobs.
    """
    progress = Progress(len(lines) + len(blows) + len(landings), time.monotonic)
    if lines:
        made = network.Network(home, broker_run.BROKERS) if network.INSIDE in os.environ else None
        try:
            problem = broker_run.play_lines(
                lines, home, made, flags.runs, report.rows[BROKERS], progress
            )
            report.problems += [problem] if problem else []
        finally:
            if made is not None:
                made.end()
    if blows:
        problem = control_run.play_blows(
            blows, home, flags.kafka_nodes, report.rows[CONTROL], progress
        )
        report.problems += [problem] if problem else []
    if landings:
        landing_run.play_landing(landings, home, flags.runs, report.rows[LANDING], progress)


def main(words: Sequence[str] | None = None) -> int:
    flags = parsed(words)
    lines, blows, landings = chosen(flags.names)
    if flags.list or not (lines or blows or landings):
        list_lines()
        return 0 if flags.list else 2
    if lines:
        java_lines.fetch(lines)
        stock_client.fetch(lines)
        network.go_inside()
    take_own_ports()
    interruptible()
    home = Path(tempfile.mkdtemp(prefix="regent-chaos-"))
    report, is_interrupted = Report(), False
    try:
        play(lines, blows, landings, flags, home, report)
    except KeyboardInterrupt:
        is_interrupted = True
        report.problems.append("interrupted: history not proven")
    finally:
        if flags.keep:
            print(f"kept: {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(report.document(), indent=1) if flags.json else "\n".join(report.lines()))
    return INTERRUPTED if is_interrupted else 0 if report.is_good else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Threads of Kafka clients need not be waited for.
