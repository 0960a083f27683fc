"""The tables of a broker that the other replicas of its set hold too, and all that keeps them
equal.

Responsible for: putting these parts together. Refuses to know: what any of them does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from brokers.clock import Clock
from brokers.remoting.client import RemotingClient
from brokers.service.clients.groups import ClientGroups
from brokers.service.clients.queue_locks import QueueLocks
from brokers.service.metadata.client_copy import ClientCopy
from brokers.service.metadata.group_changes import GroupChanges
from brokers.service.metadata.held_by_members import HeldByMembers
from brokers.service.metadata.joiner_tables import JoinerTables
from brokers.service.metadata.lock_requests import LockRequests
from brokers.service.metadata.queue_end_copy import QueueEndCopy
from brokers.service.metadata.sync import MetadataSync
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Service
from brokers.service.tables.table_files import TableFiles
from brokers.store.store import MessageStore


class SharedTables:
    """`held`: what members are told; `topics`, `groups`: changes; `sync`: a slave's copying;
    `ends`: where queues go on that the log does not know; `clients`: who greeted the master;
    `locks`: who holds which queue; `joiners`: who may join the set.
    `report(kind, fields)`: a broker event. For `members` see HeldByMembers, for `register`
    TopicChanges, for `addresses` JoinerTables.
    """

    def __init__(
        self,
        store: MessageStore,
        files: TableFiles,
        roles: RoleView,
        client: RemotingClient,
        clock: Clock,
        members: Callable[[], dict[int, str]],
        register: Callable[[], Awaitable[object]],
        addresses: Callable[[], Mapping[int, str]],
        report: Callable[[str, Mapping[str, object]], None],
        *,
        auto_create: bool,
        period_ms: int,
    ) -> None:
        self.files = files
        self.held = HeldByMembers(roles, client, clock, members)
        self.topics = TopicChanges(files, roles, self.held, clock, register, auto_create)
        self.groups = GroupChanges(files, roles, self.held, clock)
        self.ends = QueueEndCopy(store, roles, report)
        self.client_groups = ClientGroups()
        self.clients = ClientCopy(self.client_groups, roles, clock)
        self.locks = LockRequests(QueueLocks(), roles, self.held, clock, files.topics.has_queue)
        self.sync = MetadataSync(
            files,
            roles,
            client,
            period_ms,
            self.topics.adopt,
            self.groups.adopt,
            self.ends,
            self.clients,
            self.locks,
        )
        self.joiners = JoinerTables(roles, self.held, client, clock, addresses)

    @property
    def services(self) -> tuple[Service, ...]:
        """Those of these parts that answer requests."""
        return self.ends, self.clients, self.locks

    async def copy_whole(self, master: str, epoch: int) -> str | None:
        """A slave copies all tables of its master now; None when it has them, what its master
        answers for on disk, else why not. OSError.
        """
        refusal = await self.sync.copy_from(master, epoch)
        await self.files.topics_file.until_saved()
        await self.files.groups_file.until_saved()
        return refusal or await self.ends.saved()
