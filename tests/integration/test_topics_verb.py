"""`regent topics`: what it makes is what controllers want."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from events.topics import COMMANDS_TOPIC, TOPIC_NAMES
from infra.kafka.server import LocalKafka
from processors.log import topics as topic_check
from tests.support.local_cluster import regent

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(300)]


def test_missing_topics_are_named_made_once_and_fit(own_kafka: LocalKafka, tmp_path: Path) -> None:
    where = f"bootstrap.servers={own_kafka.bootstrap}"
    absent = regent("topics", "check", "--kafka", where, "--replication", "1")
    assert absent.returncode == 1
    for name in TOPIC_NAMES:
        assert f"{name} is not there" in absent.stdout
    assert f"regent topics create --kafka {where}" in absent.stdout

    too_many = regent("topics", "create", "--kafka", where)
    assert too_many.returncode == 1 and "--replication" in too_many.stderr

    made = regent("topics", "create", "--kafka", where, "--replication", "1", "--json")
    document = json.loads(made.stdout)
    assert made.returncode == 0, made.stderr
    assert sorted(document["created"]) == sorted(TOPIC_NAMES) and document["verdict"] == "ok"
    topic_check.prepare(
        {"bootstrap.servers": own_kafka.bootstrap}, local_cluster=True, wait_ms=60_000
    )

    again = regent("topics", "create", "--kafka", where, "--replication", "1", "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["created"] == []
    strict = regent("topics", "check", "--kafka", where)
    assert strict.returncode == 1 and COMMANDS_TOPIC in strict.stdout

    config = tmp_path / "controller.toml"
    config.write_text(
        'controller_id = "c1"\nlisten = "127.0.0.1:9878"\n'
        f'data_dir = "{tmp_path / "data"}"\n[kafka]\n'
        f'"bootstrap.servers" = "{own_kafka.bootstrap}"\n'
    )
    named = regent("topics", "check", "--config", str(config), "--replication", "1")
    assert named.returncode == 0, named.stdout + named.stderr


def test_printed_commands_name_every_setting_and_touch_nothing(own_kafka: LocalKafka) -> None:
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    before = set(admin.list_topics(timeout=30).topics)
    done = regent("topics", "create", "--kafka", "bootstrap.servers=k1:9092,k2:9092", "--print")
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(lines) == len(TOPIC_NAMES)
    (commands,) = (line for line in lines if COMMANDS_TOPIC in line)
    assert commands[:3] == ["kafka-topics.sh", "--bootstrap-server", "k1:9092,k2:9092"]
    assert {"flush.messages=1", "min.insync.replicas=2", "retention.ms=-1"} <= set(commands)
    assert commands[commands.index("--replication-factor") + 1] == "3"
    assert set(admin.list_topics(timeout=30).topics) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create"], "which Kafka"),
        (["create", "--kafka", "nonsense"], "is not KEY=VALUE"),
        (["create", "--kafka", "bootstrap.servers=k:1", "--replication", "0"], "out of range"),
        (["check", "--kafka", "bootstrap.servers=k:1", "--print"], "prints no commands"),
        (["check", "--config", "/nowhere.toml"], "does not exist"),
        (["check", "--config", "x", "--kafka", "a=b"], "exclude each other"),
    ],
)
def test_wrong_usage_is_said(words: list[str], said: str) -> None:
    done = regent("topics", *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_a_kafka_that_does_not_answer_is_said() -> None:
    done = regent("topics", "check", "--kafka", "bootstrap.servers=127.0.0.1:1")
    assert done.returncode == 1 and "not reachable" in done.stderr
