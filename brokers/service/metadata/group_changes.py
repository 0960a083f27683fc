"""Making the settings of consumer groups known before they are answered as done (200, 207, 353;
design S19).

Responsible for: one group's settings on this disk and at the members of the SyncStateSet (19013),
and taking them over from a master. Refuses to know: who is master, whom to tell, requests of
clients.

A group that a client's heartbeat makes has its defaults and is told to nobody: the next heartbeat
makes it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.service.metadata.held_by_members import HELD, Ask, HeldByMembers
from brokers.service.role.role_view import RoleView
from brokers.service.sending.request import Refusal
from brokers.service.tables.subscription_groups import SubscriptionGroups
from brokers.service.tables.table_files import TableFiles
from brokers.store.files.disk import is_full

# Of 19013: a group that is gone, and whether its offsets are, too.
REMOVED, OFFSETS_TOO = "regentRemovedGroup", "regentCleanOffset"
NOT_HELD = Refusal(
    ResponseCode.SERVICE_NOT_AVAILABLE, "not every in-sync replica holds the group's settings yet"
)


class GroupChanges:
    """Every member holds what `put` returned None for."""

    def __init__(
        self, tables: TableFiles, roles: RoleView, held: HeldByMembers, clock: Clock
    ) -> None:
        self._tables = tables
        self._roles = roles
        self._held = held
        self._clock = clock
        # master epoch and counter of the last push taken here
        self._pushed: tuple[int, int] = (0, 0)

    async def put(self, fields: Mapping[str, object]) -> Refusal | None:
        """Add or change a group; None when disk and members have it, or why not. `ValueError` when
        it cannot be one.
        """
        changed = self._tables.groups.put(fields, self._clock.wall_ms())
        return await self._kept(changed) or await self._known(str(fields["groupName"]))

    async def forbid(self, group: str, topic: str, readable: bool) -> Refusal | None:
        """Whether a group may read a topic (353). `ValueError` when the names cannot be."""
        changed = self._tables.groups.forbid(group, topic, readable, self._clock.wall_ms())
        return await self._kept(changed) or await self._known(group)

    async def remove(self, group: str, *, with_offsets: bool) -> Refusal | None:
        """A group is gone, with its offsets where that is asked for (207)."""
        changed = self._tables.groups.remove(group, self._clock.wall_ms())
        if with_offsets:
            self._tables.offsets.remove_group(group)
        return await self._kept(changed) or await self._known(group, with_offsets)

    async def _kept(self, changed: bool) -> Refusal | None:
        """Until this disk has it, or why not."""
        self._held.begun += 1
        try:
            if changed:
                self._tables.groups_file.save_soon()
            await self._tables.groups_file.until_saved()
        except OSError as error:
            code = (
                ResponseCode.SERVICE_NOT_AVAILABLE if is_full(error) else ResponseCode.SYSTEM_ERROR
            )
            return Refusal(code, f"the group is not on the disk yet: {error}")
        return None

    async def _known(self, name: str, with_offsets: bool = False) -> Refusal | None:
        def tell(ask: Ask, epoch: int) -> Awaitable[bool]:
            return self._push(ask, name, epoch, with_offsets)

        return None if await self._held.until_held(tell) else NOT_HELD

    async def _push(self, ask: Ask, name: str, epoch: int, with_offsets: bool) -> bool:
        # the present table is what the members shall hold
        groups, facts = self._tables.groups, {"regentMasterEpoch": str(epoch)}
        if groups.get(name) is None:
            facts |= {REMOVED: name, OFFSETS_TOO: str(with_offsets).lower()}
        answer = await ask(
            RemotingCommand.request(RequestCode.REGENT_PUSH_GROUPS, facts, groups.text_of(name))
        )
        return answer.code in HELD

    async def take_push(
        self, table: SubscriptionGroups, master_epoch: int, ext: Mapping[str, str] | None = None
    ) -> bool:
        """A slave takes some groups of its master, and they are on its disk; False when they come
        from a mastership that is over or from this broker's own, or are older than what is here and
        differ. `ext`: of the request, which may name a group that is gone. OSError.
        """
        ext = {} if ext is None else ext
        if self._roles.role == "MASTER" or master_epoch < self._roles.current.master_epoch:
            return False
        mine = self._tables.groups
        if self._is_older(table, master_epoch):
            gone = REMOVED not in ext or mine.get(ext[REMOVED]) is None
            return gone and mine.holds(table)
        if self._removed(ext, table) or mine.take_in(table):
            self._tables.groups_file.save_soon()
        self._pushed = master_epoch, table.version.counter
        await self._tables.groups_file.until_saved()
        return True

    def _removed(self, ext: Mapping[str, str], table: SubscriptionGroups) -> bool:
        name = ext.get(REMOVED)
        if name is None:
            return False
        if ext.get(OFFSETS_TOO) == "true":
            self._tables.offsets.remove_group(name)
        return self._tables.groups.take_removed(name, table.version)

    def adopt(self, table: SubscriptionGroups, master_epoch: int) -> None:
        """A slave becomes a copy of its master's table, unless the answer is from before the last
        push.
        """
        if not self._is_older(table, master_epoch) and self._tables.groups.adopt(table):
            self._tables.groups_file.save_soon()

    def _is_older(self, table: SubscriptionGroups, master_epoch: int) -> bool:
        return self._pushed[0] == master_epoch and table.version.counter < self._pushed[1]
