"""The `regent` command line: which verbs there are, and how each ends.

Exit codes: 0 done, 1 failed at work, 2 wrong usage, 130 interrupted. A Problem becomes one line on
stderr, and with --json one document on stdout as well.
Refuses to know what a verb does: each is a module with `add_arguments(parser, verb)` and
`run(arguments)`.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from infra.cli import ending, light_start
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

RELEASE = "0.3.0"
EXIT_INTERRUPTED = 130
PROCESSES = "infra.cli.process"


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: its module (imported only when asked for), one line of help, and examples."""

    module: str
    line: str
    examples: tuple[str, ...] = ()
    subverbs: str = ""
    """A module with a table SUBVERBS of the words that may follow this one."""


VERBS: dict[str, Verb] = {
    "demo": Verb(
        "infra.demo.verb",
        "show the main job: kill masters and controllers under load, then ask the history",
        (
            "regent demo",
            "regent demo --json > report.json",
            "regent demo --keep --dir /var/tmp/regent",
            "regent demo --mode acting",
            "regent demo --replication majority",
        ),
    ),
    "up": Verb(
        "infra.cli.up",
        "start a local cluster and supervise it until Ctrl-C",
        (
            "regent up",
            "regent up --detach --replicas 2",
            "regent up --kafka-nodes 3 --base-port 19876",
            "regent up --mode acting",
            "regent up --mode acting --land --detach",
            "regent up --replication majority --replicas 5",
        ),
    ),
    "status": Verb(
        "infra.cli.status",
        "what runs, who is master, who is in sync, how far the tables are",
        ("regent status", "regent status --json"),
    ),
    "doctor": Verb(
        "infra.doctor.verb",
        "check what Regent relies on: Java, Kafka, topics, addresses, clocks, versions, disks",
        (
            "regent doctor",
            "regent doctor --config controller.toml",
            "regent doctor --controller 10.0.0.1:9878 --json",
        ),
    ),
    "topics": Verb(
        "infra.doctor.topics",
        "make or check the topics of the log in a Kafka of yours",
        (
            "regent topics create --kafka bootstrap.servers=k1:9092,k2:9092,k3:9092",
            "regent topics check --config controller.toml",
            "regent topics create --kafka bootstrap.servers=k1:9092 --print",
        ),
    ),
    "restart": Verb(
        "infra.cli.restart",
        "brokers of the cluster anew, one after the other: a master hands over first, no send "
        "fails",
        ("regent restart --rolling", "regent restart --broker broker-a-2"),
    ),
    "down": Verb(
        "infra.cli.down",
        "stop the cluster of a data folder, and what a crash left of one",
        ("regent down", "regent down --dir /var/tmp/regent"),
    ),
    "explain": Verb(
        "infra.cli.lake.decisions",
        "why each election of a broker set came out as it did",
        ("regent explain broker-a", "regent explain broker-a 3"),
    ),
    "history": Verb(
        "infra.cli.lake.decisions",
        "every decision on a broker set, one line each, refusals included; or all of history as a "
        "file",
        ("regent history broker-a", "regent history --export history.jsonl.gz"),
    ),
    "state": Verb(
        "infra.cli.lake.decisions",
        "the controllers' state at an offset or a moment",
        ("regent state --at 42", "regent state --at 2026-11-21T10:00:00Z"),
    ),
    "diff": Verb(
        "infra.cli.lake.sets",
        "what became another one between two moments, and which decisions did it",
        ("regent diff --from 42 --to 60", "regent diff --from 2026-11-21T10:00:00Z --json"),
    ),
    "failovers": Verb(
        "infra.cli.lake.sets",
        "every failover: how long without master and without messages, what was cut off",
        ("regent failovers", "regent failovers broker-a --json"),
    ),
    "availability": Verb(
        "infra.cli.lake.sets",
        "how long each broker set could take messages, by day",
        ("regent availability", "regent availability broker-a"),
    ),
    "timeline": Verb(
        "infra.cli.lake.sets",
        "a broker set over time: roles, SyncStateSet, elections, gaps; as lines or as a picture",
        (
            "regent timeline broker-a",
            "regent timeline broker-a --out broker-a.svg",
            (
                "regent timeline broker-a --from 2026-11-21T10:00 --to 2026-11-21T10:05 "
                "--out minutes.svg"
            ),
        ),
    ),
    "sql": Verb(
        "infra.cli.lake.sql",
        "a query over all tables, as table, CSV or JSON; without a query, which tables there are",
        (
            'regent sql "SELECT broker_name, count(*) FROM gold.failovers GROUP BY ALL"',
            'regent sql "DESCRIBE gold.elections"',
            'regent sql "SELECT * FROM silver.decisions WHERE NOT accepted" --csv --limit 0',
        ),
    ),
    "what-if": Verb(
        "infra.cli.lake.what_if",
        "past incidents judged again: elections avoided or added, outage won or lost, messages at "
        "risk",
        (
            "regent what-if --timers fast.toml",
            "regent what-if --policy unclean --from 2026-11-21T10:00:00Z --json",
        ),
    ),
    "forecast": Verb(
        "infra.cli.lake.forecast",
        "if the master died now: who would lead, how long it took before, what is at risk",
        ("regent forecast broker-a", "regent forecast broker-a --json"),
    ),
    "verify": Verb(
        "infra.cli.lake.verify",
        "fold the landed commands again, compare digests with the published and bytes with what "
        "was proven before",
        (
            "regent verify",
            "regent verify --from 900 --to 990",
            "regent verify --layers --kafka bootstrap.servers=k1:9092 --anchors anchors.jsonl",
            "regent verify --file history.jsonl.gz",
        ),
    ),
    "lake": Verb(
        "infra.cli.lake.verbs",
        "look after the Delta tables as a whole: gaps and invariants over all history",
        ("regent lake check",),
        subverbs="infra.cli.lake.verbs",
    ),
    "kafka": Verb(PROCESSES, "run one local Kafka node", ("regent kafka --config kafka.toml",)),
    "controller": Verb(
        PROCESSES,
        "run one controller, or ask and steer the controllers that run",
        (
            "regent controller --config controller.toml",
            "regent controller sets",
            'regent controller elect broker-a --controller "10.0.0.1:9878;10.0.0.2:9878"',
        ),
        subverbs="infra.cli.controller.verbs",
    ),
    "namesrv": Verb(PROCESSES, "run one name server", ("regent namesrv --listen 0.0.0.0:9876",)),
    "broker": Verb(
        PROCESSES,
        "run one broker",
        (
            "regent broker --config broker.toml",
            "regent broker --config broker.toml --listen 0.0.0.0:10911",
        ),
    ),
    "land": Verb(
        PROCESSES,
        "run the job that lands the log in Delta tables",
        ("regent land --config land.toml",),
    ),
}


def overview() -> str:
    """What `regent --help` prints."""
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {verb.line}" for name, verb in VERBS.items()]
    return "\n".join(
        [
            "usage: regent VERB [options]",
            "",
            (
                "RocketMQ-compatible broker sets with automatic failover, where every control "
                "decision is an event."
            ),
            "",
            *lines,
            "",
            (
                "'regent VERB --help' explains one verb. Exit codes: 0 done, 1 failed, 2 wrong "
                "usage, 130 interrupted."
            ),
        ]
    )


class VerbParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise Problem(
            f"{self.prog.removeprefix('regent ')}: {message}",
            f"'{self.prog} --help' lists the options.",
            EXIT_USAGE,
        )


def subverbs_of(verb: Verb) -> dict[str, Verb]:
    """The words that may follow a verb; the table is imported only when asked for."""
    return dict(importlib.import_module(verb.subverbs).SUBVERBS) if verb.subverbs else {}


def parser_of(name: str, verb: Verb | None = None) -> argparse.ArgumentParser:
    """The parser of one verb (`name` has two words for a subverb). Parsing raises Problem for words
    that it does not know.
    """
    verb = VERBS[name] if verb is None else verb
    examples = "\n".join(f"  {line}" for line in verb.examples)
    below = subverbs_of(verb)
    width = max(map(len, below), default=0)
    parts = [
        f"{name} VERB (each has its own --help):",
        *(f"  {word:<{width}}  {one.line}" for word, one in below.items()),
        "",
    ]
    parser = VerbParser(
        prog=f"regent {name}",
        description=f"{verb.line[0].upper()}{verb.line[1:]}.",
        allow_abbrev=False,
        epilog="\n".join(
            [*(parts if below else []), *([f"examples:\n{examples}"] if examples else [])]
        )
        or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    importlib.import_module(verb.module).add_arguments(parser, name.rpartition(" ")[2])
    return parser


# The native readers of Delta keep threads of their own; now and then an orderly end of the
# interpreter falls over them and aborts a command that has done its work.
LEAVE_AT_ONCE = (
    "explain",
    "history",
    "state",
    "diff",
    "failovers",
    "availability",
    "timeline",
    "sql",
    "what-if",
    "forecast",
    "verify",
    "lake",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script. Raises nothing, but for a process that ends by an error of its own."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except Problem as problem:
        return ending.tell(problem, words)
    except KeyboardInterrupt:
        return ending.tell(Problem("interrupted", ""), words, EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        ending.discard(sys.stdout)
        return EXIT_DONE
    except OSError as error:  # a folder without rights, a full disk: the file's name says enough
        return ending.tell(_disk_problem(error), words)
    except Exception as error:
        if ending.is_interruption(error):
            return ending.tell(Problem("interrupted", ""), words, EXIT_INTERRUPTED)
        if _is_process(words):
            raise  # loudly: its log and its supervisor want to know
        return ending.tell(ending.unforeseen(error), words)


def _is_process(words: list[str]) -> bool:
    """The command runs a part of a cluster, instead of asking one."""
    verb = VERBS.get(words[0]) if words else None
    return (
        verb is not None
        and verb.module == PROCESSES
        and all(word.startswith("-") for word in words[1:2])
    )


def _disk_problem(error: OSError) -> Problem:
    place = f"{error.filename}: " if error.filename else ""
    return Problem(
        f"{place}{error.strerror or error}", "Check the path, its rights and the space on the disk."
    )


def command() -> None:
    """The process's way in and out: `main`, then an end that cannot fail."""
    ending.prepare_streams()
    light_start.hide_pandas(sys.argv[1:])
    code = main()
    ending.finish_streams()
    if sys.argv[1:2] and (
        sys.argv[1] in LEAVE_AT_ONCE or sys.argv[1:3] == ["controller", "rebuild"]
    ):
        os._exit(code)
    sys.exit(code)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return EXIT_DONE if words else EXIT_USAGE
    if words[0] == "--version":
        print(f"regent {RELEASE}")
        return EXIT_DONE
    name, verb, rest = _named(words)
    try:
        parsed = parser_of(name, verb).parse_intermixed_args(rest)
    except SystemExit as left:  # argparse has printed the help
        return int(left.code or 0)
    parsed.verb = name.rpartition(" ")[2]
    result: int = importlib.import_module(verb.module).run(parsed)
    return result


def _named(words: list[str]) -> tuple[str, Verb, list[str]]:
    """The verb (or verb and subverb) that is meant, and the words behind it."""
    name = words[0]
    if name not in VERBS:
        raise _unknown(name, VERBS, "regent")
    verb, rest = VERBS[name], words[1:]
    if not verb.subverbs or not rest or rest[0].startswith("-"):
        return name, verb, rest
    below = subverbs_of(verb)
    if rest[0] not in below:
        raise _unknown(rest[0], below, f"regent {name}")
    return f"{name} {rest[0]}", below[rest[0]], rest[1:]


def _unknown(word: str, known: dict[str, Verb], before: str) -> Problem:
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"Did you mean '{before} {near[0]}'?" if near else f"'{before} --help' lists the verbs."
    return Problem(f"unknown command {word!r}", hint, EXIT_USAGE)
