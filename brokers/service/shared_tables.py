"""The tables of a broker that the other replicas of its set hold too, and all that keeps them equal.

Responsible for: putting these parts together. Refuses to know: what any of them does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from brokers.remoting.client import RemotingClient
from brokers.service.clock import Clock
from brokers.service.group_changes import GroupChanges
from brokers.service.held_by_members import HeldByMembers
from brokers.service.metadata_sync import MetadataSync
from brokers.service.role_view import RoleView
from brokers.service.table_files import TableFiles
from brokers.service.topic_changes import TopicChanges


class SharedTables:
    """`held`: what members are told; `topics`, `groups`: changes; `sync`: a slave's copying. For `members` see HeldByMembers,
    for `register` TopicChanges."""

    def __init__(
        self, files: TableFiles, roles: RoleView, client: RemotingClient, clock: Clock, members: Callable[[], dict[int, str]],
        register: Callable[[], Awaitable[object]], *, auto_create: bool, period_ms: int,
    ) -> None:  # fmt: skip
        self.files = files
        self.held = HeldByMembers(roles, client, clock, members)
        self.topics = TopicChanges(files, roles, self.held, clock, register, auto_create)
        self.groups = GroupChanges(files, roles, self.held, clock)
        self.sync = MetadataSync(files, roles, client, period_ms, self.topics.take_over, self.groups.take_over)
