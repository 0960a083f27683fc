"""Regent among released Java processes of Apache RocketMQ 5.3.3 (`make interop`).

Responsible for: which scenarios run, in which order, the table at the end and the exit code.
Refuses to know: what a scenario does.

    make interop                             all
    make interop ARGS=--list                 what there is
    make interop ARGS="failover restarts"    these only; a name may be the beginning of several

Exit codes: 0 all as it should be; 1 something was not, or a step failed; 2 no Java compiler, or
wrong usage.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SKIPPED = "skipped"
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from infra.problems import Problem
from tests.interop.stage import NO_COMPILER, Row, Scenario, Skipped, Stage
from tests.support.own_ports import take_own_ports

SCENARIOS = (
    Scenario(
        "failover",
        "java_failover:failover",
        "kill -9 of a Java master on Regent, and the same on the Java controller",
    ),
    Scenario(
        "join",
        "java_brokers:join",
        "three Java brokers on Regent: ids, election, the set grows, both name servers agree",
    ),
    Scenario(
        "returns",
        "java_failover:returns",
        "a Java master dies with bytes nobody else has, returns, is cut, rejoins",
    ),
    Scenario(
        "freeze",
        "java_brokers:freeze",
        "a Java slave is frozen and woken: the set shrinks and grows",
    ),
    Scenario("restart", "java_brokers:restart", "all Java brokers are killed and started again"),
    Scenario(
        "controller-one",
        "java_controllers:one",
        "the active controller is killed while Java brokers serve",
    ),
    Scenario(
        "controller-all",
        "java_controllers:every",
        "all controllers are killed while Java brokers serve",
    ),
    Scenario("move", "java_brokers:move", "Java brokers come back at another address"),
    Scenario("wipe", "java_brokers:wipe", "a Java broker comes back with an empty disk"),
    Scenario(
        "older-store",
        "java_brokers:older_store",
        "a Java member comes back with an older store, as after a loss of power: found out by its "
        "heartbeats",
    ),
    Scenario(
        "mixed",
        "java_mixed",
        "one set of Regent and Java brokers: each kind as master and as slave, each killed",
    ),
    Scenario(
        "parted",
        "java_histories:parted",
        "a master of either kind dies ahead of all, returns several epochs later under the other "
        "kind, is cut",
    ),
    Scenario(
        "full-copy",
        "java_copies",
        "64 MiB first, then an empty replica of either kind joins under a master of the other, "
        "messages go on",
    ),
    Scenario(
        "cut-copy",
        "java_copies:cut_short",
        "the same, and the empty replica is killed half way and started again",
    ),
    Scenario(
        "late-copy",
        "java_copies:last_file",
        "the same, and the empty replica begins with the master's newest file, as configured",
    ),
    Scenario(
        "switch",
        "java_switch",
        "one Java broker and two of ours: roles switched by name and by killing, each is master, "
        "messages go on",
    ),
    Scenario(
        "metadata",
        "java_metadata",
        "topics, groups, offsets, delay offsets and timers of either kind of master at the "
        "other, also after kills",
    ),
    Scenario(
        "fixed-sets-java",
        "fixed_sets:java_leads",
        "a set without controllers, a Java master with two slaves of ours: each is killed, paused, "
        "wiped, comes back",
    ),
    Scenario(
        "fixed-sets-ours",
        "fixed_sets:ours_leads",
        "a set without controllers, a master of ours with two Java slaves: the same",
    ),
    Scenario(
        "fixed-by-hand",
        "java_by_hand",
        "three Java brokers with fixed ids join Regent's controllers, stopped and by hand, fail "
        "over, and go back",
    ),
    Scenario(
        "fixed-older-java",
        "fixed_sets:java_goes_back",
        "a Java master without controllers comes back with an older store: slaves of ours are cut "
        "to it",
    ),
    Scenario(
        "fixed-older-ours",
        "fixed_sets:ours_goes_back",
        "a master of ours without controllers comes back with an older store: it refuses its Java "
        "slaves until they begin anew",
    ),
    Scenario(
        "collision",
        "java_collision:collision",
        "an epoch that begins where the last one began: Java alone, then with ours in each role",
    ),
    Scenario(
        "folder-java-to-ours",
        "java_folders:java_to_ours",
        "a folder written by Java, opened and served by ours, opened by Java again; stopped and "
        "killed",
    ),
    Scenario(
        "folder-ours-to-java",
        "java_folders:ours_to_java",
        "a folder written by ours, opened and served by Java, opened by ours again; stopped and "
        "killed",
    ),
    Scenario(
        "folder-expired-java-to-ours",
        "java_folders:expired_java_to_ours",
        "queues whose messages have all expired, written by Java, go on where they were under "
        "ours and under Java again",
    ),
    Scenario(
        "folder-expired-ours-to-java",
        "java_folders:expired_ours_to_java",
        "queues whose messages have all expired, written by ours, go on where they were under "
        "Java and under ours again",
    ),
    Scenario(
        "learner",
        "java_learner:learner",
        "an async learner of either kind under a master of the other: copies everything, is never "
        "a member",
    ),
    Scenario(
        "mqadmin",
        "mqadmin_beside",
        "stock mqadmin's controller commands on Regent and on a Java controller, outputs compared",
    ),
    Scenario(
        "routes",
        "name_servers",
        "Java brokers at both name servers: equal answers to clients, also after a failover",
    ),
    Scenario(
        "acting-requests",
        "acting_requests",
        "the rules of slave acting master at a name server, step by step at Java's and at ours",
    ),
    Scenario(
        "acting-nameserver",
        "acting_nameserver",
        "Java sets without a controller at our name server and at Java's: the master killed, "
        "stopped, frozen, back",
    ),
    Scenario(
        "acting-sets",
        "acting_own",
        "a set of ours whose slaves act for the master, under Java clients: the master killed, "
        "frozen, back",
    ),
    Scenario(
        "acting-java-master",
        "acting_mixed:java_master",
        "a Java master whose slaves of ours act for it beside another set: killed, frozen, back, "
        "messages wait",
    ),
    Scenario(
        "acting-java-slaves",
        "acting_mixed:java_slaves",
        "a master of ours whose Java slaves act for it beside a Java set: the same",
    ),
    Scenario(
        "acting-java-namesrv",
        "acting_mixed:at_javas",
        "a set of ours whose slaves act, at a Java name server and one of ours: the same",
    ),
    Scenario(
        "acting-beside",
        "acting_mixed:beside",
        "a Java set whose slave acts, then one of ours: how long each step takes, side by side",
    ),
    Scenario(
        "import",
        "java_moves:way_in",
        "Java brokers leave a Java controller for Regent, under load, without a restart",
    ),
    Scenario(
        "export",
        "java_moves:way_back",
        "Java brokers leave Regent for a fresh Java controller, under load, without a restart",
    ),
    Scenario(
        "client",
        "client_on_regent",
        "the Java client on Regent's own brokers, master killed twice, default and tuned settings",
    ),
    Scenario(
        "delayed",
        "delayed_messages",
        "messages with a delay level under the Java client, two masters killed while they wait",
    ),
    Scenario(
        "transactions",
        "transactions",
        "transactions of the Java client while masters are killed: committed, rolled back, left "
        "open",
    ),
    Scenario(
        "tools",
        "tools",
        "stock mqadmin about topics, groups, clients, messages and settings of a Regent cluster",
    ),
    Scenario(
        "filters",
        "java_filters",
        "consumers of the Java client that filter by tags and by SQL92, the master killed between",
    ),
    Scenario(
        "timed",
        "delayed_messages:timed",
        "messages with a time of delivery under the Java client, two masters killed while they "
        "wait",
    ),
    Scenario(
        "pop",
        "java_pops",
        "a pop consumer of the Java client while masters are killed: left, acknowledged",
    ),
    Scenario(
        "proxy",
        "proxy",
        "the gRPC Java client through RocketMQ's proxy: every kind of message, filters, receipts, "
        "the master killed",
    ),
    Scenario(
        "dashboards",
        "admin_beside",
        "what rocketmq-dashboard and rocketmq-exporter ask, on a Java broker and on ours: fields "
        "compared",
    ),
    Scenario(
        "features-mixed",
        "features_mixed",
        "delayed, timed, half, popped and orderly messages in a set of both kinds, ten masters "
        "killed",
    ),
    Scenario(
        "go-features",
        "go_features",
        "what an application in Go uses: filters, retries, dead letters, delays, transactions, "
        "replies; the master killed between",
    ),
    Scenario(
        "stock-restarts-java",
        "stock_restarts:under_java",
        "rolling restarts, stops and hand-overs under the Java client with default settings: no "
        "send fails",
    ),
    Scenario(
        "stock-restarts-go",
        "stock_restarts:under_go",
        "the same under rocketmq-client-go with default settings",
    ),
    Scenario(
        "stock-restarts-pulls",
        "stock_readers",
        "rolling restarts under readers that pull from one replica, whichever role it has",
    ),
    Scenario(
        "stock-adoptions",
        "stock_adoptions",
        "a set with fixed ids joins the controllers and goes back, three times, under the Java "
        "client with default settings: no send fails",
    ),
    Scenario(
        "dledger-store",
        "dledger_store",
        "a store folder of majority replication in the hands of DLedger 0.3.1.2 and ours in turn",
    ),
    Scenario(
        "dledger-group-ours",
        "dledger_group:ours_with_one_of_java",
        "a group of two of ours and one of DLedger 0.3.1.2: each kind leads, is killed, paused, "
        "cut; a follower is emptied",
    ),
    Scenario(
        "dledger-group-java",
        "dledger_group:java_with_one_of_ours",
        "a group of two of DLedger 0.3.1.2, in batches, and one of ours: the same",
    ),
    Scenario(
        "dledger-broker",
        "dledger_broker",
        "a broker of RocketMQ 5.3.3 on a DLedger group with two members of ours: its queues have "
        "every message, also behind terms that ours led",
    ),
    Scenario(
        "stock-pauses",
        "stock_pauses",
        "the master stands still for good (SIGSTOP) under the Java client with default settings",
    ),
    Scenario(
        "stock-wakes",
        "stock_pauses:wakes",
        "the master stands still and wakes later; nobody ends it meanwhile",
    ),
    Scenario(
        "outages",
        "outages",
        "what a fault costs the Java client, by its settings, the brokers, and who controls them",
    ),
)


def chosen(names: Sequence[str], scenarios: Sequence[Scenario] = SCENARIOS) -> list[Scenario]:
    """The scenarios that are named, in the table's order; all when none is. Problem on a name that
    fits nothing.
    """
    for name in names:
        if not any(one.name.startswith(name) for one in scenarios):
            raise Problem(
                f"no scenario {name}",
                f"there are: {', '.join(one.name for one in scenarios)}",
                NO_COMPILER,
            )
    return [
        one for one in scenarios if not names or any(one.name.startswith(name) for name in names)
    ]


def play(scenario: Scenario, stage: Stage) -> list[Row]:
    """Run one; whatever breaks it becomes a row, ends what scenarios share, and does not keep the
    others from running.
    """
    print(f"{scenario.name}: {scenario.line}", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        rows = scenario.load()(stage)
    except Skipped as wanting:
        stage.say(f"{scenario.name}: skipped, so not shown: {wanting}")
        return [Row(SKIPPED, str(wanting))]
    except Exception as error:
        if isinstance(error, Problem) and error.exit_code == NO_COMPILER:
            raise
        rows = [broken(error), *ended(stage)]
    took = (
        f"{'ok' if all(row.ok for row in rows) else 'NOT OK'} after {time.monotonic() - began:.0f} "
        "s"
    )
    stage.say(f"{scenario.name}: {took}")
    for row in rows:
        if not row.ok:
            stage.say(f"NOT OK {row.what}: {row.result}")
    return [*rows, Row("time", took.partition("after ")[2])]


def broken(error: Exception) -> Row:
    """What ended a scenario before its end: a step in vain says what, everything else its kind
    too.
    """
    kind = "" if isinstance(error, Problem | AssertionError) else f"{type(error).__name__}: "
    return Row("step", f"{kind}{' '.join(str(error).split())}"[:1_000], ok=False)


def ended(stage: Stage) -> list[Row]:
    """End what scenarios share; a row for what would not end."""
    try:
        stage.failed()
    except Exception as error:
        return [broken(error)]
    return []


def show(results: dict[str, list[Row]], configurations: list[str]) -> None:
    """The table, then the Java configurations that were used."""
    width = max((len(row.what) for rows in results.values() for row in rows), default=0)
    for name, rows in results.items():
        print(f"\n{name}")
        for row in rows:
            print(f"  {'ok    ' if row.ok else 'NOT OK'} {row.what:<{width}}  {row.result}")
    for text in configurations:
        print(f"\n{text}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make interop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", nargs="*", help="run these only (default: all)")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument(
        "--messages", type=int, help=("client: messages per client setting (default 20000)")
    )
    parser.add_argument(
        "--only", choices=("default", "tuned"), help=("client: one client setting only")
    )
    parser.add_argument(
        "--kills",
        type=int,
        help=("failover: kills per controller (default 2); features-mixed: of masters (10)"),
    )
    parser.add_argument(
        "--times",
        type=int,
        help=("stock-*: of each change (10; stock-adoptions: 3); outages: of each fault (2)"),
    )
    parser.add_argument("--brokers", help="outages: of this kind only (a wrong one names them)")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--keep", action="store_true", help=("keep the run's folder (ledgers, stores, logs)")
    )
    return parser.parse_args()


def run(scenarios: Sequence[Scenario], stage: Stage, as_json: bool) -> int:
    """Play them one after the other and print what came out; the exit code."""
    results = {scenario.name: play(scenario, stage) for scenario in scenarios}
    good = all(row.ok for rows in results.values() for row in rows)
    if as_json:
        rows = {
            name: [{"what": row.what, "result": row.result, "ok": row.ok} for row in found]
            for name, found in results.items()
        }
        client = stage.documents.pop("client", {})
        print(
            json.dumps(
                {
                    **client,
                    "ok": good,
                    "scenarios": rows,
                    **stage.documents,
                    "configurations": stage.configurations,
                },
                indent=1,
            )
        )
    else:
        show(results, stage.configurations)
        print(
            f"\n{'all as it should be' if good else 'NOT EVERYTHING IS AS IT SHOULD BE'}",
            flush=True,
        )
    return 0 if good else 1


def main() -> int:
    options = parse()
    # asked to end: everything that was started ends too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name:<22} {scenario.line}")
        return 0
    take_own_ports()
    work = Path(tempfile.mkdtemp(prefix="regent-interop-"))
    stage = Stage(work, vars(options), options.keep)
    try:
        return run(chosen(options.scenario), stage, options.json)
    except Problem as problem:
        print(f"interop: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        stage.end()
        if options.keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
