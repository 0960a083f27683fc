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
from infra.doctor import (
    acting_sets,
    addresses,
    controllers,
    landing,
    log,
    machine,
    majority_sets,
    processes,
    routes,
    sets,
    stores,
    target,
)
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, Finding, fail, render, verdict_of
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
    commands = what.commands()
    report = _Report(commands)
    report.add("python", machine.python)
    report.add("libraries", machine.libraries)
    report.add("java", lambda: machine.java_found(what.starts_kafka))
    report.add("open files", machine.open_files)
    report.add("disk", lambda: machine.disks(what.folders, what.limits))
    report.add("processes", lambda: processes.check(what.folder, commands))
    report.add("addresses", lambda: addresses.told(what.places, commands))
    if what.folder is not None and not commands.runs:
        return report.findings  # whoever is asked is silent
    if what.kafka or what.places:
        report.add("kafka", lambda: log.check(what.kafka, what.wish, what.states, commands))
    _of_controllers(what, commands, report)
    if what.folder is not None and what.acting_sets:
        folder = what.folder
        report.add("sets", lambda: acting_sets.check(folder, commands))
    if what.folder is not None and what.by_majority:
        folder = what.folder
        report.add("sets", lambda: majority_sets.check(folder, commands))
    report.add("landing", lambda: landing.check(what.landing, commands))
    return report.findings


def _of_controllers(what: Target, commands: Commands, report: _Report) -> None:
    """What the controllers say, and whether brokers and name servers agree."""
    documents: list[controllers.Document] = []

    def asked() -> list[Finding]:
        found, document = controllers.check(what.controllers, commands)
        documents.extend([] if document is None else [document])
        return found

    report.add("controllers", asked)
    for document in documents:
        answers = stores.ask(sets.asked(document))
        report.add("sets", lambda: sets.check(document, answers, commands))  # noqa: B023 at once
        report.add("brokers", lambda: sets.reached(document, commands))  # noqa: B023
        report.add("stores", lambda: stores.check(answers, commands))  # noqa: B023
    known = documents[0] if documents else None
    report.add("name servers", lambda: routes.check(what.name_servers, known, commands))


class _Report:
    """The findings so far."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self.findings: list[Finding] = []

    def add(self, area: str, check: Callable[[], Finding | list[Finding]]) -> None:
        """What `check` finds, or that it broke."""
        try:
            found = check()
        except Exception as error:
            text = f"could not be checked: {error!r}"
            way_out = "This is an error of the doctor; the other lines stand. What is known:"
            found = fail(area, text, way_out, self._commands.look())
        self.findings += [found] if isinstance(found, Finding) else found
