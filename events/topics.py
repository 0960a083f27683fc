"""The topics of the log: names, partitions, and the settings that safety rests on (D1, D13).

Responsible for stating them. Refuses to know how topics are created or checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

COMMANDS_TOPIC = "regent.commands"
OUTCOMES_TOPIC = "regent.outcomes"
BROKER_EVENTS_TOPIC = "regent.broker-events"

FLUSH_SETTING = "flush.messages"
"""After how many records a node writes them through to its disk. Kafka acknowledges from memory
unless it is 1.
"""

PRODUCTION_REPLICATION_MIN = 3
PRODUCTION_IN_SYNC_MIN = 2


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: what it is created with, and what a process requires of it before it starts.

    `required` values are compared as the broker reports them, as text. Replication and
    `min.insync.replicas` are required beside these unless the cluster is a local one.
    """

    name: str
    partitions: int
    created: Mapping[str, str] = field(default_factory=dict)
    required: Mapping[str, str] = field(default_factory=dict)
    partitions_exact: bool = True


_FOR_EVER = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "unclean.leader.election.enable": "false",
}

# A decision that lies in the memory of two nodes only is silently gone with their power.
_ON_DISK_AT_ONCE = {**_FOR_EVER, FLUSH_SETTING: "1"}

COMMANDS = TopicSpec(COMMANDS_TOPIC, 1, created=_ON_DISK_AT_ONCE, required=_ON_DISK_AT_ONCE)
OUTCOMES = TopicSpec(OUTCOMES_TOPIC, 1, created=_FOR_EVER, required=_FOR_EVER)
BROKER_EVENTS = TopicSpec(
    BROKER_EVENTS_TOPIC, 4, created={"cleanup.policy": "delete"}, partitions_exact=False
)

TOPICS: tuple[TopicSpec, ...] = (COMMANDS, OUTCOMES, BROKER_EVENTS)
WITHOUT_CONTROLLERS: tuple[TopicSpec, ...] = (BROKER_EVENTS,)
"""What sets with fixed ids write: nobody decides there."""
TOPIC_NAMES = tuple(spec.name for spec in TOPICS)
KEPT_FOR_EVER = frozenset(spec.name for spec in TOPICS if spec.created.get("retention.ms") == "-1")
