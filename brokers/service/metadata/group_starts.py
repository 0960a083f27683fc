"""Where consumer groups began to read: what keeps a group from skipping messages when its first
offset is lost (design S19).

A stock client asks 14 when it begins to read a queue. Answered 22, with CONSUME_FROM_LAST_OFFSET it
begins at the queue's end; it commits some seconds later. A master that dies within the last copy of
that first commit leaves a successor which knows nothing of the group: answered 22 once more, the
client would skip all that it has not read. Answered 0 it would read everything that ever was. So
the first answer is remembered: where the queues ended then, or began, is on the disks of this
broker and of the members before 22 or 0 is answered, since all of them may die at once, and a later
master without an offset answers that place. It costs messages read twice, and skips none.

A group may also commit without a question before, as tools do: its first offset of a queue is told
to the members likewise.

Under the very master that gave the first answer nothing was lost: it goes on as RocketMQ does. A
group that begins at the first message or at a time finds its place by itself, and a retry topic is
read from its beginning.

Responsible for: what is remembered, telling it to the members (19014), who is answered by it.
Refuses to know: offsets' table, who is master.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.service.clients.groups import ClientGroups
from brokers.service.metadata.held_by_members import HELD, Ask, HeldByMembers
from brokers.service.role.role_view import RoleView
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import RETRY_PREFIX

FINDS_ITS_PLACE = frozenset({"CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"})
# A client asks for one queue after the other: one message to the members covers all of them.
QUEUES_TOGETHER_MAX = 1_024


class GroupStarts:
    """`first_place(topic, queue id)`: where a group that is new begins to read a queue."""

    def __init__(
        self,
        tables: TableFiles,
        roles: RoleView,
        held: HeldByMembers,
        groups: ClientGroups,
        first_place: Callable[[str, int], int],
    ) -> None:
        self._tables = tables
        self._roles = roles
        self._held = held
        self._groups = groups
        self._first_place = first_place

    def before(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group began under an earlier master; None when it did not, or finds its place
        by itself.
        """
        return (
            self._tables.offsets.start(group, topic, queue_id)
            if self._asks_for_the_end(group, topic)
            else None
        )

    def is_news(self, group: str, topic: str, queue_id: int) -> bool:
        """The group begins to read now: its place in all queues of the topic is remembered, and the
        members are to know.
        """
        offsets, config = self._tables.offsets, self._tables.topics.get(topic)
        if (
            config is None
            or self._tables.groups.get(group) is None
            or not self._asks_for_the_end(group, topic)
        ):
            return False  # strangers can name many
        if queue_id >= config.queues or offsets.has_begun(group, topic, queue_id):
            return False
        queues = range(config.queues) if config.queues <= QUEUES_TOGETHER_MAX else (queue_id,)
        noted = offsets.begin(
            group, topic, {queue: self._first_place(topic, queue) for queue in queues}
        )
        self._held.begun += noted
        return noted

    async def held(self, group: str, topic: str) -> bool:
        """Until this disk and the members have its first offset, or where it began, a bounded time:
        it is answered all the same.
        """
        with suppress(OSError):  # told in the log; a disk without room keeps no group from reading
            await self._tables.offsets_saved()
        return await self._held.until_held(lambda ask, epoch: self._push(ask, group, topic, epoch))

    async def _push(self, ask: Ask, group: str, topic: str, epoch: int) -> bool:
        body = self._tables.offsets.text_of(group, topic)
        answer = await ask(
            RemotingCommand.request(
                RequestCode.REGENT_PUSH_STARTS, {"regentMasterEpoch": str(epoch)}, body
            )
        )
        return answer.code in HELD

    async def take_push(self, table: ConsumerOffsets, master_epoch: int) -> bool:
        """A slave remembers what its master does, on its disk; False when that mastership is over,
        or this broker's own is. OSError.
        """
        if self._roles.role == "MASTER" or master_epoch < self._roles.current.master_epoch:
            return False
        self._tables.offsets.take_new(table)
        await self._tables.offsets_saved()
        return True

    def _asks_for_the_end(self, group: str, topic: str) -> bool:
        where = self._groups.consume_from_where(group)
        return not topic.startswith(RETRY_PREFIX) and where not in FINDS_ITS_PLACE
