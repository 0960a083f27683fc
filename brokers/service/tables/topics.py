"""Topics of one broker: their configuration, who may create them and how
(PROTOCOL 3.9, 4.3, 4.10).

Responsible for: the table, its version, names, creation on first send, system topics, the JSON both
peers read.
Refuses to know: files, sockets, clocks, who must hear of a change.

Invariants:
  - every change of the table moves its version;
  - a table taken over from a master has that master's version, so that equal versions mean equal
    tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from brokers.remoting import fastjson
from brokers.service.tables.data_version import COUNTER_MAX, DataVersion
from brokers.service.tables.dropped_queues import DroppedQueues
from brokers.service.tables.table_text import TableText

PERM_PRIORITY, PERM_READ, PERM_WRITE, PERM_INHERIT = 8, 4, 2, 1
PERM_READ_WRITE = PERM_READ | PERM_WRITE
DEFAULT_TOPIC = "TBW102"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
USER_TOPIC_CHARACTERS_MAX = 127
RETRY_TOPIC_CHARACTERS_MAX = 255
# A stranger can name topics freely; the whole table, with the longest names, must fit one frame (16
# MiB).
TOPICS_MAX = 20_000
QUEUES_PER_TOPIC_MAX = 65_535
# Characters of attributes, keys and values: of one topic, and of all of them, which must fit the
# frame too.
TOPIC_ATTRIBUTES_MAX, ALL_ATTRIBUTES_MAX = 1_024, 1_048_576
FILTER_TYPE_CHARACTERS_MAX = 255
SYS_FLAG_UNIT, SYS_FLAG_UNIT_READ = 1, 2

# What a topic's attributes may be (4.10). Batch queues and compaction are served by RocketMQ and
# not by this broker.
ATTRIBUTE_VALUES: Mapping[str, frozenset[str] | None] = {
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "message.type": frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    "reserve.time": None,
}
BATCH_QUEUES = "BatchCQ"

NAME_PATTERN = re.compile(r"[%|a-zA-Z0-9_-]+\Z")
NOT_WRITABLE_BY_CLIENTS = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
SYSTEM_TOPICS = NOT_WRITABLE_BY_CLIENTS | {
    DEFAULT_TOPIC,
    "BenchmarkTest",
    "RMQ_SYS_TRACE_TOPIC",
    "rmq_sys_wheel_timer",
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic as RocketMQ stores it; `perm` is a sum of priority 8, read 4, write 2, inherit
    1.
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = PERM_READ_WRITE
    sys_flag: int = 0
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        return max(self.read_queues, self.write_queues)

    def to_wire(self) -> dict[str, object]:
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @classmethod
    def from_wire(cls, fields: Mapping[str, object]) -> TopicConfig:
        """A config out of decoded JSON; `ValueError` when it cannot be one."""
        name = fields.get("topicName")
        if not isinstance(name, str) or name_refusal(name) is not None:
            raise ValueError("a topic without a valid name")
        attributes = fields.get("attributes") or {}
        if not isinstance(attributes, Mapping):
            raise ValueError(f"attributes of topic {name} are no object")
        if (
            sum(len(str(part)) for entry in attributes.items() for part in entry)
            > TOPIC_ATTRIBUTES_MAX
        ):
            raise ValueError(
                f"attributes of topic {name} have more than {TOPIC_ATTRIBUTES_MAX} characters"
            )
        filter_type = str(fields.get("topicFilterType") or "SINGLE_TAG")
        if len(filter_type) > FILTER_TYPE_CHARACTERS_MAX:
            raise ValueError(
                f"the filter type of topic {name} has more than {FILTER_TYPE_CHARACTERS_MAX} "
                "characters"
            )
        return cls(
            name=name,
            read_queues=_bounded(fields, "readQueueNums", 16, QUEUES_PER_TOPIC_MAX),
            write_queues=_bounded(fields, "writeQueueNums", 16, QUEUES_PER_TOPIC_MAX),
            perm=_bounded(fields, "perm", PERM_READ_WRITE, 15),
            sys_flag=_bounded(fields, "topicSysFlag", 0, 0x7FFFFFFF),
            order=fields.get("order") is True,
            filter_type=filter_type,
            attributes={str(key): str(value) for key, value in attributes.items()},
        )


def _bounded(fields: Mapping[str, object], key: str, default: int, largest: int) -> int:
    value = fields.get(key, default)
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError(f"{key} of topic {fields.get('topicName')} is not between 0 and {largest}")
    return value


def name_refusal(topic: str) -> str | None:
    """Why a topic cannot have this name (code 29), None when it can."""
    if not topic or topic.isspace():
        return "the topic name is blank"
    retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    limit = RETRY_TOPIC_CHARACTERS_MAX if retry else USER_TOPIC_CHARACTERS_MAX
    if len(topic) > limit:
        return f"the topic name is longer than {limit} characters"
    # RocketMQ's second form of retry topics joins group and topic with one `+`
    letters = topic.replace("+", "_", 1) if topic.startswith(RETRY_PREFIX) else topic
    if NAME_PATTERN.match(letters) is None:
        return "the topic name holds characters other than %|a-zA-Z0-9_-"
    return None


def attribute_refusal(attributes: Mapping[str, str]) -> str | None:
    """Why a topic cannot have these (code 1), None when it can."""
    for key, value in attributes.items():
        if key not in ATTRIBUTE_VALUES:
            return f"the attribute {key[:80]} is unknown"
        allowed = ATTRIBUTE_VALUES[key]
        if allowed is not None and value not in allowed:
            return (
                f"the attribute {key} cannot be {value[:80]} on this broker, only "
                f"{' or '.join(sorted(allowed))}"
            )
    return None


def system_topics(cluster_name: str, broker_name: str, auto_create: bool) -> list[TopicConfig]:
    """What every broker has from its start (4.10); the name server wants more than one topic at the
    first register.
    """
    plain = {
        "SELF_TEST_TOPIC": 1,
        "BenchmarkTest": 1024,
        cluster_name: 16,
        broker_name: 1,
        "OFFSET_MOVED_EVENT": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        f"{cluster_name}_REPLY_TOPIC": 1,
        f"rmq_sys_REVIVE_LOG_{cluster_name}": 8,
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker_name}": 1,
        "RMQ_SYS_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
        "rmq_sys_wheel_timer": 1,
    }
    configs = [TopicConfig(name, queues, queues) for name, queues in plain.items()]
    if auto_create:
        configs.append(TopicConfig(DEFAULT_TOPIC, 8, 8, PERM_READ_WRITE | PERM_INHERIT))
    return configs


_NONE = TopicConfig("", 0, 0)


class TopicTable:
    """All topics this broker knows."""

    def __init__(
        self, configs: Iterable[TopicConfig] = (), version: DataVersion | None = None
    ) -> None:
        self.configs: dict[str, TopicConfig] = {config.name: config for config in configs}
        self.version = version or DataVersion()
        self.state_version = self.version.state_version
        self._texts: dict[str, tuple[TopicConfig, bytes]] = {}  # each topic's part of `_text`
        self._text: bytes | None = None
        self.left_out: tuple[str, ...] = ()  # names of what was read and is no valid topic
        self.dropped = DroppedQueues()
        self._tells_dropped = False  # a copy says which queues were dropped

    def get(self, topic: str) -> TopicConfig | None:
        return self.configs.get(topic)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        config = self.configs.get(topic)
        return config is not None and 0 <= queue_id < config.queues

    def put(self, configs: Iterable[TopicConfig], wall_ms: int) -> bool:
        """Add or change topics; False when nothing changed. `ValueError` when the table is full."""
        fresh = {
            config.name: config for config in configs if self.configs.get(config.name) != config
        }
        if not fresh:
            return False
        for name in fresh:
            # no replica would take the table, and the next start would leave it out
            if reason := name_refusal(name):
                raise ValueError(f"topic {name[:80]!r}: {reason}")
        if len(self.configs.keys() | fresh.keys()) > max(TOPICS_MAX, len(self.configs)):
            raise ValueError(f"this broker has its {TOPICS_MAX} topics")
        if any(config.attributes for config in fresh.values()):
            attributes = (
                config.attributes
                for config in {**self.configs, **fresh}.values()
                if config.attributes
            )
            if (
                sum(len(key) + len(value) for one in attributes for key, value in one.items())
                > ALL_ATTRIBUTES_MAX
            ):
                raise ValueError(
                    f"the topics of this broker have their {ALL_ATTRIBUTES_MAX} characters of "
                    "attributes"
                )
        for config in fresh.values():
            self.dropped.changed(
                config.name, self.configs.get(config.name, _NONE).queues, config.queues
            )
        self.configs.update(fresh)
        self._text = None
        self.version = self.version.changed(wall_ms, self.state_version)
        return True

    def remove(self, topic: str, wall_ms: int) -> bool:
        config = self.configs.pop(topic, None)
        if config is None:
            return False
        self.dropped.changed(topic, config.queues, 0)
        self._text = None
        self.version = self.version.changed(wall_ms, self.state_version)
        return True

    def registered_anew(self, wall_ms: int) -> None:
        """Name servers shall take what they are told of the same topics."""
        self.version = self.version.changed(wall_ms, self.state_version)

    def mastership_began(self, master_epoch: int, wall_ms: int) -> None:
        """The state version is the master epoch: name servers keep the registration with the larger
        one. It never goes down, also where a set left its controllers and has no epochs.
        """
        self.state_version = max(master_epoch, self.version.state_version)
        self.version = self.version.changed(wall_ms, self.state_version)

    def pass_counter(self, counter: int) -> None:
        """A replica of the same line holds a version that this table never had: the next one is
        above it.
        """
        if self.version.counter < counter < COUNTER_MAX:
            self.version = replace(self.version, counter=counter + 1)

    def for_first_send(
        self, topic: str, default_topic: str, queue_count: int, unit: bool
    ) -> TopicConfig | None:
        """The configuration a first send to an unknown topic would give it; None when it may not
        create one.
        """
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return TopicConfig(topic, 1, 1, sys_flag=SYS_FLAG_UNIT if unit else 0)
        template = self.configs.get(default_topic)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        queues = max(1, min(queue_count, template.write_queues))
        return TopicConfig(
            topic, queues, queues, template.perm & ~PERM_INHERIT, SYS_FLAG_UNIT if unit else 0
        )

    def missing_for(self, queues: Iterable[tuple[str, int]]) -> list[TopicConfig]:
        """Configurations for topics that the log holds and this table does not: the log is the
        truth (design S10).
        """
        highest: dict[str, int] = {}
        for topic, queue_id in queues:
            known = self.has_queue(topic, queue_id) or self.dropped.covers(topic, queue_id)
            # A damaged header may name any queue; a topic with that many would be refused by
            # everybody.
            if not known and queue_id < QUEUES_PER_TOPIC_MAX and name_refusal(topic) is None:
                highest[topic] = max(queue_id, highest.get(topic, 0))
        restored = []
        for topic, queue_id in sorted(highest.items()):
            base = self.configs.get(topic) or TopicConfig(topic, 0, 0)
            count = queue_id + 1
            restored.append(
                replace(
                    base,
                    read_queues=max(base.read_queues, count),
                    write_queues=max(base.write_queues, count),
                )
            )
        return restored

    def to_wire(self) -> dict[str, object]:
        """`topics.json`, the body of 21 and of 19010, and the inner part of a registration at a
        name server.
        """
        table = {name: config.to_wire() for name, config in self.configs.items()}
        return {"dataVersion": self.version.to_wire(), "topicConfigTable": table}

    def text(self) -> TableText:
        """`to_wire` as JSON. Only topics that changed since the last time are written anew: a
        change or a mastership must not cost what grows with the number of topics.
        """
        if self._text is None:
            known, texts = self._texts, {}
            for name, config in self.configs.items():
                written = known.get(name)
                if written is None or written[0] != config:
                    written = (
                        config,
                        b"%b:%b" % (fastjson.dumps(name), fastjson.dumps(config.to_wire())),
                    )
                texts[name] = written
            self._texts = texts
            self._text = b"{" + b",".join(texts[name][1] for name in sorted(texts)) + b"}"
        return TableText(
            fastjson.dumps(self.version.to_wire()), self._text, fastjson.dumps(self.dropped.counts)
        )

    @classmethod
    def from_wire(cls, fields: object) -> TopicTable:
        """A table out of decoded JSON, what is no valid entry in its `left_out`; `ValueError` when
        it is no table. However many there are: what was stored, or a Java master has, is held, and
        only new ones are refused.
        """
        table = fields.get("topicConfigTable") if isinstance(fields, Mapping) else None
        if not isinstance(table, Mapping):
            raise ValueError("no topic table")
        configs, left_out = [], []
        for name, config in table.items():
            try:
                configs.append(TopicConfig.from_wire({"topicName": name, **config}))
            except (TypeError, ValueError):
                left_out.append(str(name))
        assert isinstance(fields, Mapping)
        found = cls(configs, DataVersion.from_wire(fields.get("dataVersion")))
        found.left_out = tuple(left_out)
        dropped = DroppedQueues.from_wire(fields.get("regentDroppedQueues"))
        found.dropped, found._tells_dropped = dropped or found.dropped, dropped is not None
        return found

    def adopt(self, other: TopicTable) -> bool:
        """Become a copy of the master's table; False when it was one already."""
        dropped = other.dropped.counts if other._tells_dropped else self.dropped.counts
        if (
            self.version == other.version
            and self.configs == other.configs
            and self.dropped.counts == dropped
        ):
            return False
        self.dropped = DroppedQueues(dropped)
        if self.configs != other.configs:
            self.configs, self._text = dict(other.configs), None
        self.version, self.state_version = other.version, other.state_version
        return True
