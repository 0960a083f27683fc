"""Groups and topics that come to be because somebody uses them (PROTOCOL 4.4).

Responsible for: consumer groups that greet, and their retry topics. Refuses to know: who greets,
how members come to hold a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from brokers.clock import Clock
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import RETRY_PREFIX, TopicConfig, name_refusal

_log = logging.getLogger("regent.broker.clients")


class MadeOnTheWay:
    """`routes_changed()`: name servers are to hear of a topic."""

    def __init__(
        self,
        tables: TableFiles,
        changes: TopicChanges,
        roles: RoleView,
        clock: Clock,
        routes_changed: Callable[[], None],
    ) -> None:
        self._tables = tables
        self._changes = changes
        self._roles = roles
        self._clock = clock
        self._routes_changed = routes_changed

    def ensure_groups(self, names: Iterable[str]) -> None:
        """A client greeted with these consumer groups: they and their retry topics exist from now
        on (4.4).
        """
        if not self._roles.serving:
            # A slave's tables are its master's, which the same client greets, too.
            return
        groups, topics = self._tables.groups, self._tables.topics
        wall_ms = self._clock.wall_ms()
        known = list(dict.fromkeys(names))
        if any([groups.ensure(name, wall_ms) for name in known]):
            self._tables.groups_file.save_soon()
        retry = [
            TopicConfig(RETRY_PREFIX + name, groups.retry_queues(name), groups.retry_queues(name))
            for name in known
            if groups.get(name) is not None
            and topics.get(RETRY_PREFIX + name) is None
            and not name_refusal(RETRY_PREFIX + name)
        ]
        self.topics(retry)

    def topics(self, configs: list[TopicConfig]) -> None:
        """Topics for messages that come later: the members hold them from their next copy on, or
        before the first send to one.
        """
        try:
            if not configs or not self._tables.topics.put(configs, self._clock.wall_ms()):
                return
        except ValueError as error:
            # the table is full: these groups read all the same, what they send back waits
            _log.warning("retry topics are not made: %s", error)
            return
        self._changes.not_held_yet(configs)
        self._tables.topics_file.save_soon()
        self._routes_changed()
