"""Groups and topics that come to be, or change, because somebody uses them (PROTOCOL 4.4, 4.8).

Responsible for: consumer groups that greet, and their retry topics; which topics are read in order.
Refuses to know: who greets, how members come to hold a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from brokers.clock import Clock
from brokers.service.clients.heartbeat import ConsumerData
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import (
    RETRY_PREFIX,
    SYS_FLAG_UNIT_READ,
    TopicConfig,
    name_refusal,
)

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

    def greeted(self, consumers: Sequence[ConsumerData]) -> None:
        """A client greeted with these consumer groups: they and their retry topics exist from now
        on. The retry topic of a group that reads a topic in order is one in order, too.
        """
        if not self._roles.serving:
            return
        units = {one.group for one in consumers if one.unit_mode}
        self.ensure_groups([one.group for one in consumers], units)
        self.ordered(
            RETRY_PREFIX + one.group
            for one in consumers
            if any(self._is_ordered(each.topic) for each in one.subscriptions)
        )

    def _is_ordered(self, topic: str) -> bool:
        config = self._tables.topics.get(topic)
        return config is not None and config.order

    def ordered(self, names: Iterable[str]) -> None:
        """These topics are read in order, as far as they exist. None ever ceases to be by itself:
        a name server may have lost what it said of one.
        """
        if not self._roles.serving:
            return
        known = (self._tables.topics.get(name) for name in dict.fromkeys(names))
        self.topics([replace(one, order=True) for one in known if one and not one.order])

    def ensure_groups(self, names: Iterable[str], units: Iterable[str] = ()) -> None:
        """These consumer groups and their retry topics exist from now on (4.4). `units`: groups of
        clients in unit mode.
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
            TopicConfig(
                RETRY_PREFIX + name,
                groups.retry_queues(name),
                groups.retry_queues(name),
                sys_flag=SYS_FLAG_UNIT_READ * (name in units),
            )
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
