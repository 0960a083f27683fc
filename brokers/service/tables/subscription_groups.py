"""The configuration of consumer groups (PROTOCOL 3.9, 4.10; codes 200, 201,
207).

Responsible for: the table, its defaults, its version, its JSON. Refuses to know: files, sockets,
connected clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting import fastjson
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.topics import NAME_PATTERN, name_refusal

GROUPS_MAX = 50_000
GROUP_CHARACTERS_MAX = 255
SETTINGS_DEPTH_MAX, SETTINGS_BYTES_MAX = 16, 16_384
# The table is copied as one body: it must fit a frame (16 MiB).
TABLE_BYTES_MAX = 15 * 1_048_576
# RocketMQ's bit for reading, of what 353 forbids; groups and topics that may stand there.
FORBIDDEN_READ = 4
FORBIDDEN_MAX = 10_000
DEFAULTS: dict[str, object] = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}

# Every broker of RocketMQ has these from its start; its tools count on a table that is not empty.
SYSTEM_GROUPS = (
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_PULL",
    "CID_RMQ_SYS_TRANS",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "TOOLS_CONSUMER",
)


def group_refusal(group: str) -> str | None:
    """Why a consumer group cannot have this name, None when it can: RocketMQ's own rule (4.4)."""
    if not 0 < len(group) <= GROUP_CHARACTERS_MAX:
        return f"a group name has 1 to {GROUP_CHARACTERS_MAX} characters"
    return (
        None
        if NAME_PATTERN.match(group)
        else ("the group name holds characters other than %|a-zA-Z0-9_-")
    )


def settings_text(settings: Mapping[str, object]) -> bytes:
    """One group's settings as JSON, with its name as key; `ValueError` where they are too deep or
    too long.
    """
    if _deeper(settings, SETTINGS_DEPTH_MAX):
        raise ValueError(f"the settings of a group are nested more than {SETTINGS_DEPTH_MAX} deep")
    text = fastjson.dumps(settings)
    if len(text) > SETTINGS_BYTES_MAX:
        raise ValueError(
            f"the settings of a group have {len(text)} bytes, allowed are {SETTINGS_BYTES_MAX}"
        )
    return b"%b:%b" % (fastjson.dumps(settings.get("groupName")), text)


def _deeper(value: object, levels: int) -> bool:
    if not isinstance(value, Mapping | list):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inner)


_SYSTEM_TEXTS = {name: settings_text({**DEFAULTS, "groupName": name}) for name in SYSTEM_GROUPS}


class SubscriptionGroups:
    """Group name -> its settings, kept in RocketMQ's own shape."""

    def __init__(self, version: DataVersion | None = None) -> None:
        self._groups: dict[str, dict[str, object]] = {}
        self._texts: dict[str, bytes] = {}  # each group as it is written down
        self._bytes = 0
        self._text: bytes | None = None  # of all of them
        # group -> topic -> RocketMQ's permission bits that it has not
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = version or DataVersion()
        self.left_out: tuple[str, ...] = ()  # names of what was read and is no valid group

    def get(self, group: str) -> Mapping[str, object] | None:
        return self._groups.get(group)

    def names(self) -> list[str]:
        return sorted(self._groups)

    def ensure(self, group: str, wall_ms: int) -> bool:
        """Create a group with its defaults (autoCreateSubscriptionGroup); False when it is there,
        cannot have this name or the table is full.
        """
        if group in self._groups or len(self._groups) >= GROUPS_MAX or group_refusal(group):
            return False
        try:
            return self.put({"groupName": group}, wall_ms)
        except ValueError:  # the table has all its bytes
            return False

    def put(self, fields: Mapping[str, object], wall_ms: int) -> bool:
        """Add or change a group; `ValueError` without a valid name, or where the settings or the
        table are too large.
        """
        name = fields.get("groupName")
        if not isinstance(name, str) or not name:
            raise ValueError("a subscription group without a name")
        if reason := group_refusal(name):
            raise ValueError(f"group {name[:80]!r}: {reason}")
        fresh = {**DEFAULTS, **fields}
        if self._groups.get(name) == fresh:
            return False
        self._hold(name, fresh, TABLE_BYTES_MAX)
        self.version = self.version.changed(wall_ms)
        return True

    def _hold(self, name: str, settings: dict[str, object], bytes_max: int | None) -> None:
        text = settings_text(settings)
        total = self._bytes - len(self._texts.get(name, b"")) + len(text) + 1
        if bytes_max is not None and total > max(bytes_max, self._bytes):
            raise ValueError(f"the groups of this broker have their {bytes_max} bytes")
        self._groups[name], self._texts[name], self._bytes, self._text = settings, text, total, None

    def remove(self, group: str, wall_ms: int) -> bool:
        """And what it was forbidden; False when there is no such group."""
        if not self._dropped(group):
            return False
        self.version = self.version.changed(wall_ms)
        return True

    def _dropped(self, group: str) -> bool:
        forbidden = self._forbidden.pop(group, None)
        if self._groups.pop(group, None) is None:
            return forbidden is not None
        self._bytes -= len(self._texts.pop(group))
        self._text = None
        return True

    def take_removed(self, group: str, version: DataVersion) -> bool:
        """The master has this group no more; False when it was not here."""
        if not self._dropped(group):
            return False
        self.version = version
        return True

    def forbid(self, group: str, topic: str, readable: bool, wall_ms: int) -> bool:
        """Whether this group may read this topic; False when that is so already. `ValueError`
        where such a name cannot be, or there is no room.
        """
        bits = self._forbidden.get(group, {}).get(topic, 0)
        after = bits & ~FORBIDDEN_READ if readable else bits | FORBIDDEN_READ
        if after == bits:
            return False
        if reason := group_refusal(group) or name_refusal(topic):
            raise ValueError(reason)
        if after and sum(map(len, self._forbidden.values())) >= FORBIDDEN_MAX:
            raise ValueError(f"{FORBIDDEN_MAX} topics are forbidden to groups, and no more")
        topics = {**self._forbidden.get(group, {}), topic: after}
        self._hold_forbidden(group, {name: left for name, left in topics.items() if left})
        self.version = self.version.changed(wall_ms)
        return True

    def _hold_forbidden(self, group: str, topics: dict[str, int]) -> None:
        if topics:
            self._forbidden[group] = topics
        else:
            self._forbidden.pop(group, None)

    def may_read(self, group: str, topic: str) -> bool:
        """False: 353 forbids it."""
        bits = self._forbidden.get(group, {}).get(topic, 0) if self._forbidden else 0
        return not bits & FORBIDDEN_READ

    def consume_enabled(self, group: str) -> bool:
        fields = self._groups.get(group)
        return fields is None or fields.get("consumeEnable") is not False

    def notify_enabled(self, group: str) -> bool:
        fields = self._groups.get(group)
        return fields is None or fields.get("notifyConsumerIdsChangedEnable") is not False

    def retry_queues(self, group: str) -> int:
        return self._number(group, "retryQueueNums", 1)

    def retry_max(self, group: str) -> int:
        """After how many retries a message is a dead letter."""
        return self._number(group, "retryMaxTimes", 16)

    def _number(self, group: str, key: str, default: int) -> int:
        value = self._groups.get(group, DEFAULTS).get(key, default)
        return value if type(value) is int else default

    def __len__(self) -> int:
        return len(self._groups)

    def text(self) -> bytes:
        """`subscriptionGroup.json`, and what replicas of ours copy. Only groups that changed are
        written anew.
        """
        return self._document(self._joined(), self._forbidden)

    def _joined(self) -> bytes:
        if self._text is None:
            self._text = b",".join(self._texts[name] for name in sorted(self._texts))
        return self._text

    def page(self) -> tuple[bytes, int]:
        """The body of 201 for tools and Java replicas, and how many groups it has: the system's
        own are there, too, as at every broker of RocketMQ.
        """
        more = [text for name, text in _SYSTEM_TEXTS.items() if name not in self._texts]
        groups = b",".join(part for part in (self._joined(), *more) if part)
        return self._document(groups, self._forbidden), len(self._texts) + len(more)

    def text_of(self, group: str) -> bytes:
        """This group alone, the body of 19013; nothing of it when it is gone."""
        forbidden = {name: one for name, one in self._forbidden.items() if name == group}
        return self._document(self._texts.get(group, b""), forbidden)

    def _document(self, groups: bytes, forbidden: Mapping[str, Mapping[str, int]]) -> bytes:
        return (b'{"dataVersion":%b,"forbiddenTable":%b,"subscriptionGroupTable":{%b}}') % (
            fastjson.dumps(self.version.to_wire()),
            fastjson.dumps(forbidden),
            groups,
        )

    @classmethod
    def from_wire(cls, fields: object) -> SubscriptionGroups:
        """Groups out of decoded JSON, what is no valid entry in its `left_out`; `ValueError` when
        it is no group table. However many there are: what was stored, or a Java master has, is
        held.
        """
        table = fields.get("subscriptionGroupTable") if isinstance(fields, Mapping) else None
        if not isinstance(table, Mapping):
            raise ValueError("no subscription group table")
        assert isinstance(fields, Mapping)
        groups = cls(DataVersion.from_wire(fields.get("dataVersion")))
        left_out = []
        for name, settings in table.items():
            try:
                if not isinstance(settings, Mapping) or group_refusal(str(name)):
                    raise ValueError("no group")
                groups._hold(str(name), {**DEFAULTS, **settings, "groupName": str(name)}, None)
            except ValueError:
                left_out.append(str(name))
        groups.left_out = tuple(left_out)
        groups._forbidden = _forbidden_of(fields.get("forbiddenTable"))
        return groups

    def holds(self, other: SubscriptionGroups) -> bool:
        """The groups of `other` are here, with the same settings."""
        return all(
            self._groups.get(name) == settings
            and self._forbidden.get(name) == other._forbidden.get(name)
            for name, settings in other._groups.items()
        )

    def take_in(self, other: SubscriptionGroups) -> bool:
        """Some groups of the master's table, whatever else is here; False when they were here
        already.
        """
        if self.holds(other):
            return False
        for name, settings in other._groups.items():
            self._hold(name, settings, None)
            self._hold_forbidden(name, other._forbidden.get(name, {}))
        self.version = other.version
        return True

    def adopt(self, other: SubscriptionGroups) -> bool:
        """Become a copy of the master's table; False when it was one already, or says nothing: an
        empty one replaces none.
        """
        if self._groups and not other._groups:
            return False
        same = self._groups == other._groups and self._forbidden == other._forbidden
        if same and self.version == other.version:
            return False
        self._forbidden = other._forbidden
        self._groups = other._groups
        self._texts = other._texts
        self._bytes = other._bytes
        self._text = other._text
        self.version = other.version
        return True


def _forbidden_of(fields: object) -> dict[str, dict[str, int]]:
    """What is no such table, or goes beyond its limit, forbids nothing."""
    found: dict[str, dict[str, int]] = {}
    left = FORBIDDEN_MAX
    for group, topics in fields.items() if isinstance(fields, Mapping) else ():
        for topic, bits in topics.items() if isinstance(topics, Mapping) else ():
            if type(bits) is int and 0 < bits < 16 and left:
                found.setdefault(str(group), {})[str(topic)] = bits
                left -= 1
    return found
