"""The topics a controller relies on (design D13).

Responsible for: creating them for a local cluster, and comparing what Kafka reports with what
safety needs. Refuses to know: what is in the topics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from events.producer import LOG_CLIENT_SETTINGS
from events.topics import (
    COMMANDS,
    FLUSH_SETTING,
    OUTCOMES,
    PRODUCTION_IN_SYNC_MIN,
    PRODUCTION_REPLICATION_MIN,
    TOPICS,
    TopicSpec,
)
from processors.log.health import RESTORE
from processors.log.reader import LogBroken

CHECKED = (COMMANDS, OUTCOMES)
ASK_TIMEOUT_S = 5.0
LOOK_TIMEOUT_S = 1.0
CREATE_TIMEOUT_S = 15.0
ASK_AGAIN_S = 0.2
CREATED_POLL_S = 0.05
TELL_EVERY_S = 60.0
ACCEPT_UNFLUSHED = "accept_unflushed_log"
"""The setting for a Kafka that does not let its users say when it flushes, as some managed ones."""
_log = logging.getLogger("regent.controller.topics")


class TopicsUnfit(Exception):
    """A topic, or Kafka itself, is not as a controller needs it; the text says why and the way
    out.
    """


def prepare(
    kafka: Mapping[str, str],
    *,
    local_cluster: bool,
    wait_ms: int,
    has_history: bool = False,
    accept_unflushed: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Create (local cluster only) and check the topics. Blocking; waits up to `wait_ms` for Kafka.

    `cancelled` ends the waiting early. With a history the commands topic must be there: an empty
    one in its place would hide the loss. `accept_unflushed` takes commands that the nodes
    acknowledge before they are on a disk, and says so. Raises TopicsUnfit, LogBroken.
    """
    admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
    present = _wait_for_topics(admin, kafka, wait_ms, cancelled)
    missing = [spec for spec in TOPICS if spec.name not in present]
    if has_history and COMMANDS in missing:
        raise LogBroken(
            f"Kafka has no topic {COMMANDS.name}, but its records were applied here: {RESTORE}"
        )
    if missing and not local_cluster:
        names = ", ".join(spec.name for spec in missing)
        raise TopicsUnfit(f"Kafka has no topic {names}: create them with {recipe(missing)}")
    if missing:
        _create(admin, missing, len(admin.list_topics(timeout=ASK_TIMEOUT_S).brokers))
        present = _wait_for_creation(admin, kafka, wait_ms, cancelled)
    if local_cluster and not accept_unflushed:
        flush_every_command(admin)
    reported = settings_of(admin, [spec.name for spec in CHECKED])
    for spec in CHECKED:
        problems = unfit(
            spec, present[spec.name], reported[spec.name], local_cluster, accept_unflushed
        )
        if problems:
            raise TopicsUnfit(f"topic {spec.name}: {'; '.join(problems)}")
    if not is_flushed(reported[COMMANDS.name]):
        _log.warning("%s", UNFLUSHED)


def unfit(
    spec: TopicSpec,
    topic: TopicMetadata,
    reported: Mapping[str, str],
    local_cluster: bool,
    accept_unflushed: bool = False,
) -> list[str]:
    """What is wrong with a topic, one line each; empty when it is fit."""
    problems: list[str] = []
    partitions = len(topic.partitions)
    if spec.partitions_exact and partitions != spec.partitions:
        problems.append(
            f"{partitions} partitions where exactly {spec.partitions} is needed: make it anew"
        )
    for name, wanted in spec.required.items():
        if name == FLUSH_SETTING and reported.get(name) != wanted:
            if not accept_unflushed:
                problems.append(_unflushed(spec.name, reported.get(name)))
        elif reported.get(name) != wanted:
            problems.append(f"{name} is {reported.get(name)}, set it to {wanted}")
    if local_cluster:
        return problems
    replication = min((len(one.replicas) for one in topic.partitions.values()), default=0)
    if replication < PRODUCTION_REPLICATION_MIN:
        problems.append(
            f"replication {replication}, raise it to {PRODUCTION_REPLICATION_MIN} or set "
            "local_cluster"
        )
    in_sync = int(reported.get("min.insync.replicas", "0"))
    if in_sync < PRODUCTION_IN_SYNC_MIN:
        problems.append(f"min.insync.replicas is {in_sync}, set it to {PRODUCTION_IN_SYNC_MIN}")
    return problems


UNFLUSHED = (
    f"{COMMANDS.name} has no {FLUSH_SETTING}={COMMANDS.required[FLUSH_SETTING]}, and "
    f"{ACCEPT_UNFLUSHED} takes it so: decisions that were acknowledged may be lost when all "
    "in-sync nodes of Kafka lose their power at once"
)


def is_flushed(reported: Mapping[str, str]) -> bool:
    """Whether every record of the commands topic is on the nodes' disks before it is
    acknowledged.
    """
    return reported.get(FLUSH_SETTING) == COMMANDS.required[FLUSH_SETTING]


def _unflushed(topic: str, found: str | None) -> str:
    """The text for decisions that only memory holds; the command is to be used as it stands."""
    wanted = f"{FLUSH_SETTING}={COMMANDS.required[FLUSH_SETTING]}"
    return (
        f"{FLUSH_SETTING} is {found}, so decisions are acknowledged from memory: set it to "
        f"{COMMANDS.required[FLUSH_SETTING]} (kafka-configs.sh --bootstrap-server HOST:PORT "
        f"--alter --entity-type topics --entity-name {topic} --add-config {wanted}), or, where "
        f"Kafka refuses that, set {ACCEPT_UNFLUSHED} = true and know that the power of all in-sync "
        "nodes at once may take decisions away"
    )


def flush_every_command(admin: AdminClient) -> bool:
    """Give the commands topic of a cluster of ours what older releases created it without. True if
    it was changed.
    """
    if is_flushed(settings_of(admin, [COMMANDS.name])[COMMANDS.name]):
        return False
    set_settings(admin, COMMANDS.name, {FLUSH_SETTING: COMMANDS.required[FLUSH_SETTING]})
    _log.info(
        "%s: %s set, as an older release had created it without", COMMANDS.name, FLUSH_SETTING
    )
    return True


def wrong_settings(
    spec: TopicSpec, topic: TopicMetadata, reported: Mapping[str, str], local_cluster: bool
) -> dict[str, str]:
    """What is to be set, with the value that is needed. Of too few copies none can be demanded."""
    copies = min((len(one.replicas) for one in topic.partitions.values()), default=0)
    wrong = {name: value for name, value in spec.required.items() if reported.get(name) != value}
    few = local_cluster or copies < PRODUCTION_REPLICATION_MIN
    if not few and int(reported.get("min.insync.replicas", "0")) < PRODUCTION_IN_SYNC_MIN:
        wrong["min.insync.replicas"] = str(PRODUCTION_IN_SYNC_MIN)
    return wrong


def set_settings(admin: AdminClient, topic: str, wanted: Mapping[str, str]) -> None:
    """Set these, and wait until Kafka reports them. Raises TopicsUnfit."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([asked], request_timeout=ASK_TIMEOUT_S).values():
        try:
            future.result(ASK_TIMEOUT_S + 1)
        except KafkaException as error:
            raise TopicsUnfit(
                f"{', '.join(wanted)} of {topic} cannot be set: {error.args[0].str()}"
            ) from None
    deadline = time.monotonic() + ASK_TIMEOUT_S
    while time.monotonic() < deadline:  # what was just changed is reported a moment later
        if wanted.items() <= settings_of(admin, [topic])[topic].items():
            return
        time.sleep(CREATED_POLL_S)


def _wait_for_topics(
    admin: AdminClient, kafka: Mapping[str, str], wait_ms: int, cancelled: Callable[[], bool]
) -> dict[str, TopicMetadata]:
    deadline, tell_at = time.monotonic() + wait_ms / 1000, 0.0
    while True:
        try:
            return dict(admin.list_topics(timeout=LOOK_TIMEOUT_S).topics)
        except KafkaException as error:
            if time.monotonic() >= deadline or cancelled():
                raise TopicsUnfit(
                    f"Kafka at {kafka['bootstrap.servers']} is not reachable "
                    f"({error.args[0].str()}): start it, or correct bootstrap.servers"
                ) from None
            if time.monotonic() >= tell_at:
                _log.warning(
                    "Kafka at %s does not answer (%s): waiting for it",
                    kafka["bootstrap.servers"],
                    error.args[0].str(),
                )
                tell_at = time.monotonic() + TELL_EVERY_S
        time.sleep(ASK_AGAIN_S)


def _wait_for_creation(
    admin: AdminClient, kafka: Mapping[str, str], wait_ms: int, cancelled: Callable[[], bool]
) -> dict[str, TopicMetadata]:
    """A topic that was just created, here or by another controller, is in the metadata a moment
    later.
    """
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while True:
        present = _wait_for_topics(admin, kafka, wait_ms, cancelled)
        if all(spec.name in present and present[spec.name].partitions for spec in TOPICS):
            return present
        if time.monotonic() > deadline or cancelled():
            raise TopicsUnfit(
                "the topics were created, but Kafka does not show them: look into its log"
            )
        time.sleep(CREATED_POLL_S)


def wanted(specs: Sequence[TopicSpec], replication: int) -> list[NewTopic]:
    """The topics with that many copies; from three on a record is safe when two have it."""
    in_sync = PRODUCTION_IN_SYNC_MIN if replication >= PRODUCTION_REPLICATION_MIN else 1
    return [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=replication,
            config={**spec.created, "min.insync.replicas": str(in_sync)},
        )
        for spec in specs
    ]


def _create(admin: AdminClient, specs: Sequence[TopicSpec], nodes: int) -> None:
    replication = PRODUCTION_REPLICATION_MIN if nodes >= PRODUCTION_REPLICATION_MIN else 1
    asked = wanted(specs, replication)
    for name, future in admin.create_topics(asked, request_timeout=CREATE_TIMEOUT_S).items():
        try:
            future.result(CREATE_TIMEOUT_S)
        except KafkaException as error:
            # Another controller of the same cluster may have been quicker.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsUnfit(
                    f"topic {name} could not be created: {error.args[0].str()}"
                ) from None


def settings_of(admin: AdminClient, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings of topics as Kafka reports them. Raises TopicsUnfit.

    A topic that was just created is not known to each node at once, so a node that does not know it
    is asked again.
    """
    deadline = time.monotonic() + ASK_TIMEOUT_S
    while True:
        settings, refused = _reported(admin, topics)
        unknown = all(
            error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART for error in refused.values()
        )
        if refused and unknown and time.monotonic() < deadline:
            time.sleep(CREATED_POLL_S)
            continue
        for name, error in refused.items():
            raise TopicsUnfit(f"the settings of topic {name} cannot be read: {error.str()}")
        return settings


def _reported(
    admin: AdminClient, topics: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, KafkaError]]:
    """What one question gave: settings by topic, and why there are none of the others."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    settings: dict[str, dict[str, str]] = {}
    refused: dict[str, KafkaError] = {}
    for resource, future in admin.describe_configs(asked, request_timeout=ASK_TIMEOUT_S).items():
        try:
            entries = future.result(ASK_TIMEOUT_S + 1)
        except KafkaException as error:
            refused[resource.name] = error.args[0]
        else:
            settings[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    return settings, refused


def recipe(specs: Sequence[TopicSpec]) -> str:
    """How missing topics are to be made, for people."""
    return "; ".join(
        f"{spec.name}: {spec.partitions} partition(s), "
        + ", ".join(f"{name}={value}" for name, value in spec.created.items())
        for spec in specs
    )


ID_TIMEOUT_S = 1.0
GONE = ""


class TopicIdentity:
    """Asks one Kafka. Keeps a client for itself."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})

    def ask(self, topic: str, timeout_s: float = ID_TIMEOUT_S) -> str | None:
        """The topic's id; `GONE` when there is no such topic; None when it could not be learnt."""
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
        try:
            return str(asked[topic].result(timeout_s + 1).topic_id)
        except KafkaException as error:
            return GONE if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
        except FutureTimeout:
            return None
