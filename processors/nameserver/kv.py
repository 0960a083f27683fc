"""Keys and values that operators keep at a name server, by namespace: 100, 101, 102, 219
(PROTOCOL 4.1).

Responsible for: the table, its limits, its form on the disk, which is RocketMQ's `kvConfig.json`.
Refuses to know: files, requests, what a key means.
"""

from __future__ import annotations

from collections.abc import Mapping

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Key: a topic; value: which brokers' queues its ordered producers use."""
NAMESPACES_MAX = 256
KEYS_MAX = 10_000
TEXT_CHARACTERS_MAX = 4_096
# Each change writes the file anew.
CHARACTERS_MAX = 1_048_576


class KvRefused(ValueError):
    """A key or value that is not kept; the text says why."""


class KvConfig:
    """Namespace -> key -> value."""

    def __init__(self, table: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._table = {name: dict(keys) for name, keys in (table or {}).items()}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def listed(self, namespace: str) -> Mapping[str, str] | None:
        """All of a namespace; None when there is none of that name."""
        return self._table.get(namespace)

    def with_value(self, namespace: str, key: str, value: str) -> KvConfig:
        """A table with this one more. KvRefused when there is no room for it."""
        if not namespace or not key:
            raise KvRefused("namespace or key is null")
        if max(map(len, (namespace, key, value))) > TEXT_CHARACTERS_MAX:
            raise KvRefused(f"a text is longer than {TEXT_CHARACTERS_MAX} characters")
        table = {**self._table, namespace: {**self._table.get(namespace, {}), key: value}}
        keys = sum(map(len, table.values()))
        if len(table) > NAMESPACES_MAX or keys > KEYS_MAX or _characters(table) > CHARACTERS_MAX:
            raise KvRefused(
                f"there is room for {KEYS_MAX} keys in {NAMESPACES_MAX} namespaces, "
                f"{CHARACTERS_MAX} characters in all: delete some"
            )
        return KvConfig(table)

    def without(self, namespace: str, key: str) -> KvConfig:
        """A table without this one; the namespace stays, as in RocketMQ."""
        if self.get(namespace, key) is None:
            return self
        kept = {name: one for name, one in self._table[namespace].items() if name != key}
        return KvConfig({**self._table, namespace: kept})

    def document(self) -> dict[str, object]:
        """As the file has it."""
        return {"configTable": self._table}


def _characters(table: Mapping[str, Mapping[str, str]]) -> int:
    return sum(
        len(namespace) + sum(len(key) + len(value) for key, value in keys.items())
        for namespace, keys in table.items()
    )


def kv_of(document: object) -> KvConfig:
    """ValueError: it is no such document."""
    table = document.get("configTable") if isinstance(document, Mapping) else None
    if not isinstance(table, Mapping):
        raise ValueError("no configTable")
    found: dict[str, dict[str, str]] = {}
    for namespace, keys in table.items():
        if not isinstance(keys, Mapping):
            raise ValueError(f"namespace {str(namespace)[:80]} is no object")
        found[str(namespace)] = {str(key): str(value) for key, value in keys.items()}
    return KvConfig(found)
