"""The configuration of consumer groups (`broker-wire-and-storage.md` 3.9, 4.10; codes 200, 201, 207).

Responsible for: the table, its defaults, its version, its JSON. Refuses to know: files, sockets, connected clients.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.service.data_version import DataVersion
from brokers.service.topics import NAME_PATTERN

GROUPS_MAX = 50_000
GROUP_CHARACTERS_MAX = 255
DEFAULTS: dict[str, object] = {
    "attributes": {}, "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
    "consumeFromMinEnable": True, "consumeMessageOrderly": False, "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0, "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16, "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
}  # fmt: skip


def group_refusal(group: str) -> str | None:
    """Why a consumer group cannot have this name, None when it can: RocketMQ's own rule (4.4)."""
    if not 0 < len(group) <= GROUP_CHARACTERS_MAX:
        return f"a group name has 1 to {GROUP_CHARACTERS_MAX} characters"
    return None if NAME_PATTERN.match(group) else "the group name holds characters other than %|a-zA-Z0-9_-"


class SubscriptionGroups:
    """Group name -> its settings, kept in RocketMQ's own shape."""

    def __init__(self, version: DataVersion | None = None) -> None:
        self._groups: dict[str, dict[str, object]] = {}
        self.version = version or DataVersion()
        self.left_out: tuple[str, ...] = ()  # names of what was read and is no valid group

    def get(self, group: str) -> Mapping[str, object] | None:
        return self._groups.get(group)

    def ensure(self, group: str, wall_ms: int) -> bool:
        """Create a group with its defaults (autoCreateSubscriptionGroup); False when it is there, cannot have this name or
        the table is full."""
        if group in self._groups or len(self._groups) >= GROUPS_MAX or group_refusal(group):
            return False
        return self.put({"groupName": group}, wall_ms)

    def put(self, fields: Mapping[str, object], wall_ms: int) -> bool:
        """Add or change a group; `ValueError` without a valid name."""
        name = fields.get("groupName")
        if not isinstance(name, str) or not name:
            raise ValueError("a subscription group without a name")
        if reason := group_refusal(name):
            raise ValueError(f"group {name[:80]!r}: {reason}")
        fresh = {**DEFAULTS, **fields}
        if self._groups.get(name) == fresh:
            return False
        self._groups[name] = fresh
        self.version = self.version.changed(wall_ms)
        return True

    def remove(self, group: str, wall_ms: int) -> bool:
        if self._groups.pop(group, None) is None:
            return False
        self.version = self.version.changed(wall_ms)
        return True

    def consume_enabled(self, group: str) -> bool:
        fields = self._groups.get(group)
        return fields is None or fields.get("consumeEnable") is not False

    def notify_enabled(self, group: str) -> bool:
        fields = self._groups.get(group)
        return fields is None or fields.get("notifyConsumerIdsChangedEnable") is not False

    def retry_queues(self, group: str) -> int:
        value = self._groups.get(group, DEFAULTS).get("retryQueueNums", 1)
        return value if type(value) is int else 1

    def to_wire(self) -> dict[str, object]:
        """`subscriptionGroup.json` and the body of 201."""
        return {
            "dataVersion": self.version.to_wire(), "forbiddenTable": {}, "subscriptionGroupTable": dict(self._groups),
        }  # fmt: skip

    @classmethod
    def from_wire(cls, fields: object) -> SubscriptionGroups:
        """Groups out of decoded JSON, what is no valid entry in its `left_out`; `ValueError` when it is no group table."""
        table = fields.get("subscriptionGroupTable") if isinstance(fields, Mapping) else None
        if not isinstance(table, Mapping) or len(table) > GROUPS_MAX:
            raise ValueError("no subscription group table")
        assert isinstance(fields, Mapping)
        groups = cls(DataVersion.from_wire(fields.get("dataVersion")))
        left_out = []
        for name, settings in table.items():
            if isinstance(settings, Mapping) and group_refusal(str(name)) is None:
                groups._groups[str(name)] = {**DEFAULTS, **settings, "groupName": str(name)}
            else:
                left_out.append(str(name))
        groups.left_out = tuple(left_out)
        return groups

    def take_over(self, other: SubscriptionGroups) -> bool:
        """Become a copy of the master's table; False when it was one already."""
        if self.version == other.version and self._groups == other._groups:
            return False
        self._groups, self.version = other._groups, other.version
        return True
