"""`regent up`: plan a local cluster in a data folder, start it, supervise it (or leave that to a
child: --detach).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.cli.main import RELEASE
from infra.cli.process import table_of
from infra.cluster import plan as cluster_plan
from infra.cluster.data_folder import VERSION_FILE, DataFolder, write_json
from infra.cluster.flags import add_dir
from infra.cluster.options import MODES, REPLICATIONS, ClusterOptions, with_defaults
from infra.cluster.placement import read_places
from infra.cluster.plan import ClusterPlan
from infra.cluster.supervisor import Supervisor
from infra.jars import store
from infra.jars.java import Java, find_java
from infra.kafka import log_topics
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem
from infra.processes import children

DETACH_TIMEOUT_S = 900.0
POLL_S = 0.1
CHANGEABLE = ("land", "watchdog_ms")
"""Options that a folder may be given anew."""


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent up`. None means: as the folder was made, else the default."""
    add_dir(parser)
    _add_what(parser)
    _add_where(parser)
    parser.add_argument(
        "--watchdog-ms",
        type=int,
        metavar="MS",
        help=(
            "a broker that stands still for this long is ended and started anew (default 2000; "
            "0: none is)"
        ),
    )
    parser.add_argument("--detach", action="store_true", help="return when everything answers")
    parser.add_argument("--places", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--purpose", choices=("cluster", "demo"), default="cluster", help=argparse.SUPPRESS
    )


def _add_what(parser: argparse.ArgumentParser) -> None:
    """What the cluster consists of."""
    parser.add_argument(
        "--mode",
        choices=MODES,
        help=(
            "controllers (default): controllers elect the master of one set; acting: two sets of a "
            "fixed master and its slaves, of which one acts for a master that is away (RocketMQ's "
            "slave acting master), without a controller"
        ),
    )
    parser.add_argument(
        "--replication",
        choices=REPLICATIONS,
        help=(
            "in-sync-set (default): every member of the set in sync has what is acknowledged; "
            "majority: a majority has it, and the members elect their leader without a controller "
            "(RocketMQ's DLedger brokers)"
        ),
    )
    parser.add_argument(
        "--replicas",
        type=int,
        metavar="N",
        help=(
            "brokers in the set broker-a (default 3; 0: others run the brokers); acting: in each "
            "of the sets broker-a and broker-b, the master counted (default 3, at least 2); "
            "majority: 3 or 5"
        ),
    )
    parser.add_argument(
        "--controllers",
        type=int,
        metavar="N",
        help=("controllers, one active, others hot (default 2; acting, majority: none)"),
    )
    parser.add_argument(
        "--kafka-nodes",
        type=int,
        metavar="N",
        help=(
            "1, or 3 for a replicated log (default 1; acting, majority: 0, or 1 with --land; "
            "brokers report there what happens)"
        ),
    )


def _add_where(parser: argparse.ArgumentParser) -> None:
    """Its addresses and its log."""
    parser.add_argument("--host", help="address to bind (default 127.0.0.1)")
    parser.add_argument("--advertise-host", help="address others are told (default: --host)")
    parser.add_argument(
        "--base-port",
        type=int,
        metavar="PORT",
        help=(
            "name server's port, the others follow (default: a free block, of the range "
            "REGENT_PORTS=FIRST-LAST where the environment has that)"
        ),
    )
    parser.add_argument(
        "--kafka",
        action="append",
        metavar="KEY=VALUE",
        help=(
            "use this Kafka instead of a local one, e.g. bootstrap.servers=... "
            "security.protocol=SSL"
        ),
    )
    parser.add_argument(
        "--land",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=(
            "land the log in Delta tables; --no-land: no Spark (default: land; acting, majority: "
            "no, and with it Kafka is started too, so that there is a history)"
        ),
    )


def options_of(arguments: argparse.Namespace, stored: dict[str, Any] | None) -> ClusterOptions:
    """Flags over what the folder was made with. Problem when they contradict each other."""
    given: dict[str, Any] = {
        name: getattr(arguments, name, None)
        for name in ClusterOptions.__dataclass_fields__
        if name not in ("kafka", "places")
    }
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.kafka:
        given["kafka"] = table_of("kafka", arguments.kafka)
        if not given["kafka"].get("bootstrap.servers"):
            raise Problem(
                "--kafka needs bootstrap.servers=HOST:PORT", "Give it once per setting.", EXIT_USAGE
            )
    if arguments.places:
        given["places"] = read_places(arguments.places)
    if stored is not None:
        _refuse_changes(ClusterOptions(**stored), given)
    options = with_defaults({**(stored or {}), **given})
    options.check()
    return options


def _refuse_changes(made: ClusterOptions, given: dict[str, Any]) -> None:
    """Problem for what a folder cannot be given anew."""
    way_out = "Leave the flag out, or use another --dir."
    for name, value in given.items():
        if name not in CHANGEABLE and getattr(made, name) != value:
            raise Problem(
                f"the data folder was made with {name.replace('_', '-')} {getattr(made, name)}, "
                f"not {value}",
                way_out,
                EXIT_USAGE,
            )
    if given.get("land") and not made.has_log:
        raise Problem(
            "the data folder was made without Kafka, so there is nothing to land",
            way_out,
            EXIT_USAGE,
        )


def run(arguments: argparse.Namespace) -> int:
    """Foreground: supervise until Ctrl-C. With --detach: return when everything answers."""
    folder = DataFolder(arguments.dir.absolute())
    if arguments.detach:
        identity = folder.identity()
        options_of(arguments, identity["options"] if identity else None)
        detach(folder, _words(arguments), _say)
        _say(
            f"everything answers; 'regent status --dir {arguments.dir}' shows it, 'regent down "
            f"--dir {arguments.dir}' stops it"
        )
        return EXIT_DONE
    return supervise(folder, arguments)


def _say(text: str) -> None:
    print(text, flush=True)


def find_parts() -> tuple[Java, Path, Path]:
    """Java, Kafka's jars and Spark's; Problem when one is missing or not what the lock names."""
    return find_java(), store.check("kafka"), store.check("spark")


NO_PARTS = Path()
"""Of a cluster that needs neither Kafka nor Spark."""


def supervise(folder: DataFolder, arguments: argparse.Namespace) -> int:
    """Plan and run the cluster in this process."""
    identity = folder.identity()
    options = options_of(arguments, identity["options"] if identity else None)
    java_home, spark_jars, told = NO_PARTS, NO_PARTS, "no Java needed"
    if options.has_log:
        java, kafka_jars, spark_jars = find_parts()
        java_home, told = java.home, f"{java}, jars in {kafka_jars.parent}"
        os.environ["JAVA_HOME"] = str(java_home)
    folder.require_room()
    is_new = identity is None
    if identity is None:
        identity = folder.create(arguments.purpose, asdict(options), RELEASE)
    lock = folder.lock()
    try:
        refuse_leftovers(folder)
        plan = cluster_plan.make_plan(
            folder, identity["cluster_id"], options, java_home, spark_jars
        )
        if options.base_port != plan.base_port:
            remember_port(folder, identity, options, plan)
        _say(f"cluster {identity['cluster_id']} in {folder.root}, {told}")
        for text in (*risks_of(options), *waits_of(options, is_new)):
            _say(text)
        supervisor = Supervisor(folder, plan, options, _say, lambda kind: _before(kind, plan))
        return supervisor.run()
    finally:
        os.close(lock)


def waits_of(options: ClusterOptions, is_new: bool) -> list[str]:
    """What makes this start slow, and why."""
    if not options.acts or is_new:
        return []
    text = (
        "masters that have stored something ask first whether a slave acts for them; a name "
        "server that has just started is believed after 35 s"
    )
    return [text]


def risks_of(options: ClusterOptions) -> list[str]:
    """What a cluster with these options does not promise."""
    if options.replicas != 1:
        return []
    text = (
        "one replica: it serves alone and MAY LOSE what it has acknowledged, with its disk or its "
        "power; use --replicas 3"
    )
    return [text]


def remember_port(
    folder: DataFolder, identity: dict[str, Any], options: ClusterOptions, plan: ClusterPlan
) -> None:
    """Keep the addresses for the next start: brokers and clients know them."""
    identity["options"] = {**asdict(options), "base_port": plan.base_port}
    write_json(folder.root / VERSION_FILE, identity)


def refuse_leftovers(folder: DataFolder) -> None:
    """Problem when processes of a crashed supervisor still live: they hold ports and write into the
    folder.
    """
    left = []
    found = folder.cluster()
    for one in (found or {}).get("processes", []):
        if (
            one.get("pid")
            and children.is_alive(one["pid"])
            and one.get("stamp") == children.start_stamp(one["pid"])
        ):
            left.append(f"{one['name']} (pid {one['pid']})")
    if left:
        raise Problem(
            f"leftover of a crash: {', '.join(left)} still running",
            f"'regent down --dir {folder.root}' ends it.",
        )


def _before(kind: str, plan: ClusterPlan) -> None:
    """What must be there before the first one starts that writes to the log: a local log's topics,
    or an answer of a foreign Kafka.
    """
    first = "controller" if plan.of_kind("controller") else "broker"
    if kind != first or not plan.kafka:
        return
    nodes = len(plan.of_kind("kafka"))
    if nodes:
        log_topics.create(plan.kafka, nodes)
    else:
        log_topics.require_reachable(plan.kafka)


def _words(arguments: argparse.Namespace) -> list[str]:
    """The same flags again for the child, without --detach."""
    words = ["--dir", str(arguments.dir.absolute()), "--purpose", arguments.purpose]
    for name in ClusterOptions.__dataclass_fields__:
        value = getattr(arguments, name, None)
        if value is not None and name not in ("kafka", "land"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for entry in arguments.kafka or ():
        words += ["--kafka", entry]
    return words + ([] if arguments.land is None else ["--land" if arguments.land else "--no-land"])


def detach(
    folder: DataFolder, words: list[str], say: Callable[[str], None], tied: bool = False
) -> subprocess.Popen[bytes]:
    """Start a supervisor of its own and wait until everything answers; its lines are passed on.

    With `tied` it dies with this process. Problem, with its last line, when it ends before it is
    ready.
    """
    if folder.is_running():
        folder.lock()  # says who holds it
    folder.require_room()
    folder.root.mkdir(parents=True, exist_ok=True)
    output = folder.starting_output(os.getpid())
    command = [sys.executable, "-u", "-m", "infra", "up", *words]
    try:
        if tied:
            process = children.spawn(command, output)
        else:
            with output.open("ab") as sink:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
        _follow(folder, process, output, say)
    finally:
        if output.exists() and folder.logs.exists():
            output.replace(folder.output_of("supervisor"))
        else:
            output.unlink(missing_ok=True)
    return process


def _follow(
    folder: DataFolder, process: subprocess.Popen[bytes], output: Path, say: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    with output.open("r", encoding="utf-8", errors="replace") as lines:
        rest, problems = "", []
        while True:
            ended = process.poll() is not None
            rest += lines.read()
            *whole, rest = rest.split("\n")
            for line in whole:
                if line.startswith("regent: "):
                    problems.append(line)
                elif line:
                    say(line)
            if ended:
                if not problems:
                    folder.require_room()  # a full disk took its last words as well
                text = (
                    problems[-1].removeprefix("regent: ")
                    if problems
                    else f"it ended with code {process.returncode}"
                )
                raise Problem(text, "", process.returncode if process.returncode in (1, 2) else 1)
            found = folder.cluster()
            if (
                found
                and found.get("supervisor", {}).get("pid") == process.pid
                and found["state"] == "ready"
            ):
                return
            if time.monotonic() > deadline:
                process.terminate()
                raise Problem(
                    f"the cluster is not ready after {DETACH_TIMEOUT_S:.0f} s",
                    f"See {folder.logs}.",
                )
            time.sleep(POLL_S)
