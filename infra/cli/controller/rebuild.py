"""`regent controller rebuild --from-delta TABLES`: the command log made anew from the landed
tables, and proven.

For a Kafka that was lost, or a topic that was cut or deleted (design S11). The very bytes go back
to the very offsets; the proof folds them and compares with every digest that controllers published
while the cluster lived.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.cli.process import table_of
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.controllers.log_doubts import doubts_behind
from infra.kafka.topic_restore import FreshTopic
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem
from processors.fold.folder import Folder, ReleaseTooOld

if TYPE_CHECKING:
    from lakehouse.tables.lake import Lake

PROGRESS_EVERY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    add_dir(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-delta", metavar="TABLES", help="folder or URI of the landed tables")
    source.add_argument(
        "--from-log",
        action="store_true",
        help=(
            "the log stays as it is, and goes on with every set uncertain (no controller may run)"
        ),
    )
    parser.add_argument(
        "--cluster", metavar="ID", help=("whose history, where several clusters land in one place")
    )
    parser.add_argument(
        "--kafka",
        action="append",
        metavar="KEY=VALUE",
        help=(
            "where the topic is made, e.g. bootstrap.servers=... (default: the "
            "Kafka of the cluster in --dir)"
        ),
    )
    parser.add_argument(
        "--topic",
        default=COMMANDS_TOPIC,
        metavar="NAME",
        help=(
            "restore the commands into this topic, and nothing else (default "
            f"{COMMANDS_TOPIC}, with {OUTCOMES_TOPIC})"
        ),
    )
    parser.add_argument(
        "--accept-unflushed-log",
        action="store_true",
        help=(
            "of a Kafka that refuses flush.messages=1: take it as it is (the "
            "power of all its in-sync nodes may take decisions away)"
        ),
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=("read and prove the tables, look at the topics, write nothing"),
    )
    parser.add_argument(
        "--json", action="store_true", help=("one JSON document; progress goes to standard error")
    )


def run(arguments: argparse.Namespace) -> int:
    """Prove, write, read back, prove again."""
    from lakehouse.errors import LakehouseError
    from lakehouse.tables.lake import open_lake

    say = _say_to_stderr if arguments.json else _say
    if arguments.from_log:
        document = doubt_log(kafka_of(arguments), arguments.topic, arguments.dry_run, say)
        print(
            json.dumps(document, indent=1)
            if arguments.json
            else "\n".join(lines_of_doubts(document))
        )
        return EXIT_DONE
    try:
        lake = open_lake(arguments.from_delta, arguments.cluster)
        document = rebuild(
            lake,
            kafka_of(arguments),
            arguments.topic,
            arguments.dry_run,
            say,
            arguments.accept_unflushed_log,
        )
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_OF_BRONZE) from error
    print(json.dumps(document, indent=1) if arguments.json else "\n".join(lines_of(document)))
    return EXIT_DONE


WAY_OUT_OF_BRONZE = (
    "Only a whole history from offset 0 can be restored: name the tables of the cluster, or "
    "restore the topic from Kafka's own replicas or backup."
)


def _say(text: str) -> None:
    print(text, flush=True)


def _say_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def kafka_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The client settings: flags, else those of the cluster in --dir. Problem when there are
    none.
    """
    if arguments.kafka:
        settings = table_of("kafka", arguments.kafka)
    else:
        found = DataFolder(arguments.dir.absolute()).cluster() or {}
        settings = dict(found.get("kafka", {}))
    if not settings.get("bootstrap.servers"):
        raise Problem(
            "no Kafka is named",
            "Give --kafka bootstrap.servers=HOST:PORT, or the --dir of a cluster.",
            EXIT_USAGE,
        )
    return settings


def rebuild(
    lake: Lake,
    kafka: dict[str, str],
    topic: str,
    dry_run: bool,
    say: Callable[[str], None],
    accept_unflushed: bool = False,
) -> dict[str, Any]:
    """The whole work; gives what was found and done. Problem or LakehouseError when it cannot be
    done.
    """
    from lakehouse.tables.bronze_log import BronzeLog

    commands, outcomes = BronzeLog(lake, COMMANDS_TOPIC), BronzeLog(lake, OUTCOMES_TOPIC)
    commands.require_whole()
    if not commands.end:
        raise Problem(
            f"no commands have landed in {lake.root}",
            "Name the folder of the tables with --from-delta.",
        )
    outcomes.require_whole()
    restored = [(FreshTopic(kafka, topic, accept_unflushed), commands)]
    if topic == COMMANDS_TOPIC:
        restored.append((FreshTopic(kafka, OUTCOMES_TOPIC), outcomes))
    for fresh, _ in restored:
        fresh.require_fresh()
    published, proof = _proven(commands, outcomes, say)
    document: dict[str, Any] = {
        "topic": topic,
        "commands": proof.commands,
        "digest": proof.digest,
        "proven_up_to": proof.proven,
        "outcomes": outcomes.end if len(restored) > 1 else 0,
        "written": not dry_run,
    }
    if not dry_run:
        for fresh, source in restored:
            fresh.create()
            fresh.write(
                source.records(), _Shown(f"{fresh.name}: records written", source.end, say).tell
            )
        written = _prove_written(restored[0][0], commands.end, published, proof, say)
        if topic == COMMANDS_TOPIC:
            document |= _made_uncertain(restored[0][0], written, say)
    return document


def doubt_log(
    kafka: dict[str, str], topic: str, dry_run: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    """The log as it stands, with every set in it uncertain from its end on. Problem when it is not
    whole.
    """
    log, folder = FreshTopic(kafka, topic), Folder()

    def take(offset: int, data: bytes) -> None:
        folder.apply(offset, data)

    try:
        end = log.read_whole(take)
    except ReleaseTooOld as error:
        raise Problem(
            f"{topic}, offset {folder.next_offset}: {error}", "Use that release."
        ) from error
    document: dict[str, Any] = {
        "topic": topic,
        "commands": end,
        "digest": folder.digest.hex(),
        "written": not dry_run,
    }
    return document | _made_uncertain(log, folder, say, dry_run)


def _made_uncertain(
    log: FreshTopic, folder: Folder, say: Callable[[str], None], dry_run: bool = False
) -> dict[str, Any]:
    doubts = doubts_behind(folder, lambda: uuid.uuid4().bytes, int(time.time() * 1000))
    if doubts.records and not dry_run:
        log.write(
            doubts.records,
            lambda written: None,
            "Stop whoever writes there (no controller may run), and run 'regent controller "
            "rebuild --from-log'.",
        )
        say(
            f"{log.name}: {len(doubts.sets)} sets are uncertain from offset "
            f"{doubts.records[0].offset} on"
        )
    return {"uncertain_sets": list(doubts.sets), "rules_activated": doubts.activated}


def _proven(commands: Any, outcomes: Any, say: Callable[[str], None]) -> tuple[Any, Any]:
    """Fold what landed and compare it with what was published, before anything is written."""
    from lakehouse.proof.beside_outcomes import ProvingFold, PublishedDigests

    published = PublishedDigests()
    for record in _with_progress(outcomes, "outcomes read", say):
        published.add(record.value)
    fold = ProvingFold(published)
    for record in _with_progress(commands, "commands folded", say):
        fold.apply(record.offset, record.value)
    if fold.problem is not None:
        raise Problem(
            f"the tables do not prove themselves: {fold.problem}",
            "Nothing was written; 'regent verify' looks closer.",
        )
    return published, fold.proof


def _prove_written(
    fresh: FreshTopic, end: int, published: Any, proof: Any, say: Callable[[str], None]
) -> Folder:
    """Read the topic back and fold it once more: what counts is what stands there now."""
    from lakehouse.proof.beside_outcomes import ProvingFold

    again = ProvingFold(published)
    shown = _Shown(f"{fresh.name}: records read back and folded", end, say)

    def take(offset: int, data: bytes) -> None:
        again.apply(offset, data)
        shown.tell(offset + 1)

    fresh.read(take, end)
    if again.proof != proof:
        raise Problem(
            f"what was written to {fresh.name} folds to another digest",
            "Delete the topic and run this again.",
        )
    folder: Folder = again.folder
    return folder


class _Shown:
    """Says now and then how far it is."""

    def __init__(self, what: str, total: int, say: Callable[[str], None]) -> None:
        self._what = what
        self._total = total
        self._say = say
        self._begun = self._shown = time.monotonic()

    def tell(self, done: int) -> None:
        from processors.log.start import progress_text

        now = time.monotonic()
        if now - self._shown > PROGRESS_EVERY_S:
            self._shown = now
            self._say(f"{self._what}: {progress_text(done, self._total, now - self._begun)}")


def _with_progress(source: Any, what: str, say: Callable[[str], None]) -> Iterator[Any]:
    shown = _Shown(what, source.end, say)
    for record in source.records():
        yield record
        shown.tell(record.offset + 1)


def lines_of(document: dict[str, Any]) -> list[str]:
    """What was done, for people, with what to do next."""
    last, proven = document["commands"] - 1, document["proven_up_to"]
    what = "restored" if document["written"] else "could be restored (dry run: nothing was written)"
    lines = [
        f"{document['commands']} commands, offsets 0 to {last}, {what}: topic {document['topic']}"
        + (f", and {document['outcomes']} outcomes" if document["outcomes"] else ""),
        (
            f"digest at offset {last}: {document['digest']}; every digest published up to offset "
            f"{proven} is equal"
        )
        if proven >= 0
        else (
            f"digest at offset {last}: {document['digest']}; no published digest has landed to "
            "compare it with"
        ),
    ]
    if proven < last:
        lines.append(
            f"  {last - proven} commands behind offset {proven} have no published digest; they "
            "were folded as they are"
        )
    lines += _uncertain_lines(document)
    if document["written"]:
        lines.append(
            "Start the controllers now. One that had applied more than this may refuse to start: "
            f"what was decided behind offset {last} never landed and is lost; move its data folder "
            "away once you have seen to it. A landing job whose other topics were lost too "
            "refuses these tables: keep them, and give it new folders for tables and checkpoint, "
            "where the restored log lands again."
        )
    return lines


def lines_of_doubts(document: dict[str, Any]) -> list[str]:
    """What was done to a log that stays, for people, with what to do next."""
    done = "were read" if document["written"] else "were read (dry run: nothing was written)"
    head = (
        f"{document['commands']} commands of {document['topic']} {done}; digest "
        f"{document['digest']}"
    )
    after = (
        "Start the controllers now. One that had applied more than the log held may refuse to "
        "start: move its data folder away, what it knew beyond that is lost."
    )
    return [head, *_uncertain_lines(document), *([after] if document["written"] else [])]


def _uncertain_lines(document: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if rules := document.get("rules_activated"):
        lines.append(
            f"rules {rules} are active from there on (older ones cannot doubt a set): every "
            "controller needs this release"
        )
    if names := document.get("uncertain_sets"):
        lines.append(
            f"uncertain: {', '.join(names)}. Lost decisions may have changed who holds what was "
            "acknowledged, so each elects a master when all of its replicas have reported, and "
            "the longest leads; it is AT_RISK only if one is missing or may have lost something "
            "(an operator ends the wait: regent controller elect SET ID)"
        )
    return lines
