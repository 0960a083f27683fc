"""A majority group of brokers in one loop: real logs and stores, real ports for clients, members
that reach each other by calls.

Responsible for: carrying out what members ask, a network between them that can be cut, brokers that
die and come back. Refuses to know: rules, what has to hold.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from brokers.majority.log_port import Taken
from brokers.majority.messages.leading import Leading, Proposal
from brokers.majority.messages.store import EntryMessageStore
from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    Answer,
    AppendAsFollower,
    AppendAsLeader,
    AppendDone,
    Commit,
    Effect,
    Flush,
    LeaderReady,
    LeaveGroup,
    NewEntry,
    RestartAt,
    RoleChanged,
    SaveTerm,
    Send,
    TruncateFrom,
)
from brokers.majority.quorum.log_effects import append_as_follower, append_as_leader
from brokers.majority.quorum.standing import Role
from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig, folder_name
from brokers.majority.wire.messages import Response
from brokers.service.sending.send import Mastership
from brokers.store.store import StoreConfig
from tests.support.client_service import Desk

FILE_BYTES = 1 << 16
SIZES = StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=20_000)
CALL_S = 0.2
TICK_S = 0.01
Step = Callable[[QuorumCore], list[Effect]]


class GroupBroker:
    """One member, its store, and its clients' port (`desk`)."""

    def __init__(self, group: BrokerGroup, name: str) -> None:
        self.group, self.name = group, name
        root = group.root / name
        root.mkdir(exist_ok=True)
        sizes = MajorityStoreConfig(FILE_BYTES, 1 << 12)
        self.folder = MajorityFolder(root / folder_name(name), sizes, same_boot=True)
        self._loop = asyncio.get_running_loop()
        config = QuorumConfig(
            "g", name, group.names, heartbeat_ms=400, vote_pause_ms=(20, 120), vote_wait_ms=200,
            call_ms=int(CALL_S * 1_000), retry_pause_ms=50, append_wait_ms=1_000,
        )  # fmt: skip
        self.core = QuorumCore(
            config, self.folder.log, self.folder.terms.state, self._now_ms(), random.random
        )
        self.leading = leading = Leading(self, self._now_ms)
        self.store = EntryMessageStore(root, self.folder, leading.propose, SIZES, same_boot=True)
        self.desk = Desk(
            root,
            name="b",
            store=self.store,
            mastership=Mastership(
                leading.leads, leading.write_refusal, leading.log_grew, leading.confirmation,
                leading.storage_failed,
            ),
        )  # fmt: skip
        self.left: str | None = None
        self.up = False
        self._steps: deque[Step] = deque()
        self._busy = False
        self._ticks: asyncio.TimerHandle | None = None

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> GroupBroker:
        await self.desk.__aenter__()
        self.up = True
        self._tick()
        return self

    async def end(self, *, clean: bool) -> None:
        """`clean` False: as a kill, nothing more is written."""
        self.up = False
        assert self._ticks is not None
        self._ticks.cancel()
        self.leading.role_changed()
        if not clean:
            self.store.close(clean=False)
            self.folder.log.data.close()
            self.folder.log.index.log.close()
        await self.desk.__aexit__()
        if clean:
            self.folder.close()
        else:
            self.folder._lock.release()

    def _tick(self) -> None:
        self._ticks = self._loop.call_later(TICK_S, self._tick)
        self.leading.tick()
        self.hear(lambda core: core.tick(self._now_ms()))

    # -- the member --------------------------------------------------------------------------------

    def append(self, proposal: Proposal, entries: Sequence[NewEntry]) -> None:
        assert not self._busy, "within an effect"
        self.hear(lambda core: core.append(proposal, entries, self._now_ms()))

    def storage_failed(self, reason: str) -> None:
        self.hear(lambda core: core.storage_failed(reason, self._now_ms()))

    def hear(self, step: Step) -> None:
        """One input after the other, each with all its effects."""
        if not self.up:
            return
        self._steps.append(step)
        if self._busy:
            return
        self._busy = True
        try:
            while self._steps:
                self._carry_out(self._steps.popleft()(self.core))
        finally:
            self._busy = False

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        more = [then for effect in effects if (then := self._do(effect)) is not None]
        for step in more:
            self._carry_out(step(self.core))

    def _do(self, effect: Effect) -> Step | None:
        log, now_ms = self.folder.log, self._now_ms()
        match effect:
            case Send():
                self.group.carry(self, effect)
            case Answer():
                effect.token(effect.message)  # type: ignore[operator]
            case SaveTerm():
                self.folder.terms.save(effect.state)
            case AppendAsLeader():
                failure = append_as_leader(log, effect)
                return lambda core: core.appended(failure, now_ms)
            case AppendAsFollower():
                taken, count = append_as_follower(log, effect)
                return lambda core: core.taken(taken, count, now_ms)
            case RestartAt():
                begun = log.restart_at(effect.entry)
                return lambda core: core.taken(begun, int(begun is Taken.APPENDED), now_ms)
            case TruncateFrom():
                log.truncate_from(effect.index)
            case Flush():
                self._loop.call_soon(self._flush)
            case Commit():
                log.commit(effect.index)
                offset = self.store.entries.committed_offset
                self.desk.service.confirmed(offset)
                self.leading.committed(offset)
            case AppendDone():
                if isinstance(effect.token, Proposal):
                    effect.token.done(effect)
            case RoleChanged():
                self.leading.role_changed()
                self._loop.call_soon(self._follow)
            case LeaderReady():
                self._loop.call_soon(self._lead, effect.term)
            case LeaveGroup():
                self.left = effect.reason
        return None

    def _flush(self) -> None:
        if self.up:
            self.folder.log.flush()
            self.hear(lambda core: core.flushed(self._now_ms()))

    # -- the broker's role -------------------------------------------------------------------------

    def _lead(self, term: int) -> None:
        if self.up and self.core.ready and self.core.standing.term == term:
            self.desk.lead(term)

    def _follow(self) -> None:
        standing = self.core.standing
        if self.up and standing.role is not Role.LEADER:
            leader = self.group.brokers.get(standing.leader_id or "")
            self.desk.follow("" if leader is None else leader.desk.address, standing.term)


class BrokerGroup:
    """`cut`: members that nobody reaches."""

    def __init__(self, root: Path, members: int = 3) -> None:
        self.root = root
        self.names = tuple(f"n{number}" for number in range(members))
        self.brokers: dict[str, GroupBroker] = {}
        self.cut: set[str] = set()

    async def __aenter__(self) -> BrokerGroup:
        for name in self.names:
            await self.start(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            if broker.up:
                await broker.end(clean=True)

    async def start(self, name: str) -> GroupBroker:
        """A broker of this name, again if it was there before."""
        self.brokers[name] = GroupBroker(self, name)
        return await self.brokers[name].start()

    async def leader(self, *, but: str = "") -> GroupBroker:
        """Who serves as master, once there is one."""
        while True:
            for one in self.brokers.values():
                if one.up and one.name not in (but, *self.cut) and one.desk.roles.serving:
                    return one
            await asyncio.sleep(TICK_S)

    def carry(self, source: GroupBroker, effect: Send) -> None:
        """A call between members; None is its answer when none came in time."""
        loop, heard = asyncio.get_running_loop(), [False]

        def hear(answer: Response | None) -> None:
            if not heard[0]:
                heard[0] = True
                source.hear(lambda core: core.answered(effect.token, answer, source._now_ms()))

        def answered(response: Response) -> None:
            if not {source.name, effect.peer} & self.cut:
                loop.call_soon(hear, response)

        def arrive() -> None:
            target = self.brokers.get(effect.peer)
            if target is not None and not {source.name, effect.peer} & self.cut:
                target.hear(lambda core: core.request(answered, effect.message, target._now_ms()))

        loop.call_soon(arrive)
        loop.call_later(CALL_S, hear, None)
