"""`regent doctor`: everything that Regent relies on, looked at from this machine, each line with
the way out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.controllers.admin import parse_addresses
from infra.doctor import addresses, controllers, landing, log, machine, target
from infra.doctor.findings import FAIL, Finding, render, verdict_of
from infra.doctor.target import Target
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent doctor`."""
    add_dir(parser)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=(
            "check what this file of a controller or broker names, instead of the cluster in --dir"
        ),
    )
    parser.add_argument(
        "--controller",
        metavar=("HOST:PORT[;HOST:PORT]"),
        help="check these controllers and their brokers only",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when something fails; a warning alone is no failure."""
    findings = examine(target_of(arguments))
    if arguments.json:
        print(
            json.dumps(
                {"verdict": verdict_of(findings), "findings": [asdict(one) for one in findings]},
                indent=1,
            )
        )
    else:
        print("\n".join(render(findings)))
    return EXIT_FAILED if verdict_of(findings) == FAIL else EXIT_DONE


def target_of(arguments: argparse.Namespace) -> Target:
    """What the flags say is to be checked."""
    if arguments.config and arguments.controller:
        raise Problem(
            "doctor: --config and --controller exclude each other", "Name one of them.", EXIT_USAGE
        )
    if arguments.controller:
        return Target(controllers={one: one for one in parse_addresses(arguments.controller)})
    return (
        target.of_file(arguments.config)
        if arguments.config
        else target.of_folder(DataFolder(arguments.dir.absolute()))
    )


def examine(what: Target) -> list[Finding]:
    """Every check; one that breaks is a finding too, and the others go on."""
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        (
            "machine",
            lambda: [
                machine.python(),
                machine.libraries(),
                machine.java_found(what.starts_kafka),
                machine.open_files(),
            ],
        ),
        ("disk", lambda: machine.disks(what.folders)),
        ("addresses", lambda: addresses.told(what.places)),
        ("controllers", lambda: controllers.check(what.controllers)),
        (
            "name servers",
            lambda: addresses.reached("name servers", {one: one for one in what.name_servers}),
        ),
        ("landing", lambda: landing.check(what.landing)),
    ]
    if what.kafka or what.places:
        checks.insert(
            2,
            (
                "kafka",
                lambda: log.check(
                    what.kafka, what.local_cluster, what.accept_unflushed_log, what.folders
                ),
            ),
        )
    findings = []
    for area, check in checks:
        try:
            findings += check()
        except Exception as error:
            findings.append(
                Finding(
                    area,
                    FAIL,
                    f"could not be checked: {error!r}",
                    "This is an error of the doctor; the other lines stand.",
                )
            )
    return findings
