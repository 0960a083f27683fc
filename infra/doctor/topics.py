"""`regent topics create|check|repair`: the topics that controllers rest on, and what sets without
them report to, in a Kafka that others run.

A local cluster makes its own. Refuses to know what the topics hold.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from events.producer import LOG_CLIENT_SETTINGS
from events.topics import BROKER_EVENTS, PRODUCTION_REPLICATION_MIN, TopicSpec
from infra.cli.process import table_of
from infra.doctor import log, target
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, render, verdict_of
from infra.kafka import log_topics, server
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem
from processors.log import topics as topic_check
from processors.log.topics import TopicsUnfit

REPLICATION_MAX = 9
KNOWN_WITHIN_S = 10.0
POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent topics`."""
    parser.add_argument(
        "action",
        choices=("create", "check", "repair"),
        help="make what is missing, only look, or set what is not as it has to be",
    )
    parser.add_argument(
        "--kafka",
        action="append",
        metavar="KEY=VALUE",
        help="a client setting, e.g. bootstrap.servers=... security.protocol=SSL; may repeat",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=(
            "take [kafka] from this file of a controller; a broker's with a fixed id: only the "
            "topic that it reports to"
        ),
    )
    parser.add_argument(
        "--replication",
        type=int,
        default=PRODUCTION_REPLICATION_MIN,
        metavar="N",
        help="copies of each partition (default 3; fewer: decisions may be lost with one node)",
    )
    parser.add_argument(
        "--print",
        action="store_true",
        dest="only_print",
        help="create: print the commands of Kafka's own tool instead, and touch nothing",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when a topic is missing or not as it has to be."""
    if not 1 <= arguments.replication <= REPLICATION_MAX:
        raise Problem(
            f"--replication {arguments.replication} is out of range",
            f"Use 1 to {REPLICATION_MAX}.",
            EXIT_USAGE,
        )
    if arguments.only_print and arguments.action != "create":
        raise Problem(
            f"topics {arguments.action} prints no commands", "Leave --print out.", EXIT_USAGE
        )
    kafka, wish = _asked(arguments)
    wanted = topic_check.wanted(wish.there, arguments.replication)
    if arguments.only_print:
        lines = printed(kafka["bootstrap.servers"], wanted)
        print(json.dumps({"commands": lines}, indent=1) if arguments.json else "\n".join(lines))
        return EXIT_DONE
    log_topics.require_reachable(kafka)
    few_copies = arguments.replication < PRODUCTION_REPLICATION_MIN
    created = _create(kafka, wanted) if arguments.action == "create" else []
    commands = Commands(kafka=kafka, kafka_file=arguments.config)
    try:
        repaired = repair(kafka, wish.fit, few_copies) if arguments.action == "repair" else {}
        findings = log.topics(kafka, replace(wish, few_copies=few_copies), commands)
    except TopicsUnfit as error:
        raise Problem(str(error), "Let this user describe and alter configurations.") from error
    if arguments.json:
        document: dict[str, Any] = {
            "created": created,
            "repaired": repaired,
            "verdict": verdict_of(findings),
            "findings": [asdict(one) for one in findings],
        }
        print(json.dumps(document, indent=1))
    else:
        done = [f"created {name}" for name in created]
        done += [
            f"{name}: {setting}={value} set"
            for name, settings in repaired.items()
            for setting, value in settings.items()
        ]
        print("\n".join([*done, *render(findings)]))
    return EXIT_FAILED if verdict_of(findings) == FAIL else EXIT_DONE


def repair(
    kafka: Mapping[str, str], wanted: Sequence[TopicSpec], few_copies: bool
) -> dict[str, dict[str, str]]:
    """Set what is not as it has to be; gives it by topic. Topics that are not there are left out.
    TopicsUnfit, KafkaException.
    """
    admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
    there = admin.list_topics(timeout=KNOWN_WITHIN_S).topics
    specs = [spec for spec in wanted if spec.name in there]
    reported = topic_check.settings_of(admin, [spec.name for spec in specs]) if specs else {}
    done = {}
    for spec in specs:
        few = few_copies or spec is BROKER_EVENTS
        wrong = topic_check.wrong_settings(spec, there[spec.name], reported[spec.name], few)
        if wrong:
            topic_check.set_settings(admin, spec.name, wrong)
            done[spec.name] = wrong
    return done


def _asked(arguments: argparse.Namespace) -> tuple[dict[str, str], log.Wish]:
    """Which Kafka, and the topics that matter there: what the file's process needs, or all."""
    if arguments.config and arguments.kafka:
        raise Problem(
            "topics: --config and --kafka exclude each other", "Name one of them.", EXIT_USAGE
        )
    if arguments.config:
        found = target.of_file(arguments.config)
        kafka, wish = found.kafka, log.Wish(there=found.wish.there, fit=found.wish.fit)
    else:
        kafka, wish = table_of("kafka", arguments.kafka or []), log.Wish()
    if not kafka.get("bootstrap.servers"):
        raise Problem(
            "topics: it is not said which Kafka",
            "Name it: --kafka bootstrap.servers=HOST:PORT, or --config controller.toml.",
            EXIT_USAGE,
        )
    return kafka, wish


def printed(bootstrap: str, wanted: list[NewTopic]) -> list[str]:
    """The same in the words of Kafka's own tool, a line each."""
    lines = []
    for topic in wanted:
        words = ["kafka-topics.sh", "--bootstrap-server", bootstrap, "--create", "--if-not-exists"]
        words += ["--topic", topic.topic, "--partitions", str(topic.num_partitions)]
        words += ["--replication-factor", str(topic.replication_factor)]
        for name, value in (topic.config or {}).items():
            words += ["--config", f"{name}={value}"]
        lines.append(shlex.join(words))
    return lines


def _create(kafka: Mapping[str, str], wanted: list[NewTopic]) -> list[str]:
    others = {key: value for key, value in kafka.items() if key != "bootstrap.servers"}
    try:
        created = server.create_topics(kafka["bootstrap.servers"], wanted, others)
        admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
        deadline = time.monotonic() + KNOWN_WITHIN_S
        while time.monotonic() < deadline:  # what was just made is known a moment later
            if {one.topic for one in wanted} <= set(
                admin.list_topics(timeout=KNOWN_WITHIN_S).topics
            ):
                break
            time.sleep(POLL_S)
        return created
    except KafkaException as error:
        raise Problem(
            f"the topics cannot be created: {error.args[0].str()}",
            "With fewer than three nodes give --replication; without the right to create, "
            "--print shows the commands for somebody who has it.",
        ) from error
