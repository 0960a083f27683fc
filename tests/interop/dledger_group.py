"""Groups of DLedger's own members and ours, under DLedger's own client and ours.

Responsible for: one of Java's and two of ours, and the reverse: each kind leads, is killed, paused,
killed with entries that nobody else has, and comes back; a follower comes back empty. What was
acknowledged is in every log, and the logs are one. Refuses to know: how long a failover takes.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import TransferRequest
from tests.interop.dledger_member import JavaClient, JavaMember, class_path
from tests.interop.stage import Row, Stage
from tests.support.brokers import until
from tests.support.majority_group import GroupClient, Identity, MemberProgram, addresses

Member = MemberProgram | JavaMember
# As fast as a machine that is busy with Java's starts allows.
TIMES: dict[str, object] = {"heartbeat_ms": 500, "heartbeats_missed_max": 5}
AT_A_TIME = 25
BODY_BYTES = 300
TAIL = 7
"""Entries that a leader has alone."""
WITHIN_S = 120


class Mixed:
    """A group, its clients, and what happened to it. `kinds`: "java" or "ours" by member."""

    def __init__(self, stage: Stage, work: Path, kinds: Sequence[str], batch: bool) -> None:
        self._say = stage.say
        path = class_path(stage.work, stage.say)
        work.mkdir()
        names = addresses(len(kinds))
        self.kinds = dict(zip(names, kinds, strict=True))
        self.members: dict[str, Member] = {
            name: JavaMember(path, work, names, name, batch=batch, **TIMES)
            if kind == "java"
            else MemberProgram(work, names, name, **TIMES)
            for name, kind in self.kinds.items()
        }
        self.client = GroupClient(names)
        self.java = JavaClient(path, work, names)
        self._sent = 0

    async def start(self) -> None:
        await asyncio.gather(*(one.start() for one in (*self.members.values(), self.java)))

    async def end(self, number: int = signal.SIGKILL) -> None:
        await self.client.close()
        for one in (self.java, *self.members.values()):
            await one.end(number)

    # -- load --------------------------------------------------------------------------------------

    def _body(self) -> bytes:
        self._sent += 1
        return b"%06d:" % self._sent + bytes(self._sent % BODY_BYTES)

    async def append(self, count: int = AT_A_TIME) -> None:
        for _ in range(count):
            await self.client.append(self._body(), WITHIN_S)

    async def append_by_java(self, count: int = AT_A_TIME) -> None:
        """Through DLedger's own client, which looks for the leader itself."""
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        while count and asyncio.get_running_loop().time() < deadline:
            body = self._body()
            code, index = await self.java.append(body)
            if code == Code.SUCCESS:
                self.client.acknowledged[index] = body
                count -= 1
        assert not count, f"DLedger's client could not append within {WITHIN_S} s"

    # -- who leads ---------------------------------------------------------------------------------

    async def leader(self, but: str | None = None) -> str:
        return await self.client.leader([name for name in self.members if name != but])

    async def led_by(self, kind: str) -> str:
        """A leader of this kind, by handing over where it is another one."""
        found = ""

        async def leads() -> bool:
            nonlocal found
            found = await self.leader()
            if self.kinds[found] == kind:
                return True
            term = (await self.client.standings([found])).get(found)
            answer = await self.client.append_at(found, self._body())
            to = next(name for name, one in self.kinds.items() if one == kind)
            if answer is not None and answer.code == Code.SUCCESS and term is not None:
                request = TransferRequest(
                    group="g", remote_id=found, local_id="operator", term=answer.term,
                    transfer_id=found, transferee_id=to,
                )  # fmt: skip
                await self.client.ask(found, request)
            return False

        await until(leads, f"a member of {kind} leads", WITHIN_S, pause_s=0.2)
        return found

    async def whole(self) -> None:
        """Every log ends where the leader's does."""

        async def ends() -> bool:
            leader = await self.leader()
            if await self.client.append(self._body()) is None:
                return False
            found = {await self._end_of(name) for name in self.members}
            return len(found) == 1 and None not in found and bool(leader)

        await until(ends, "all logs end at one place", WITHIN_S, pause_s=0.2)

    async def _end_of(self, name: str) -> int | None:
        member = self.members[name]
        if isinstance(member, JavaMember):
            return int((await member.say("say")).split()[4])
        said = (await self.client.standings([name])).get(name)
        return None if said is None or said.end is None else said.end.index

    # -- what happens to a leader ------------------------------------------------------------------

    async def killed(self, leader: str) -> None:
        await self.members[leader].end()
        await self.append()
        await self.members[leader].start()
        await self.whole()

    async def paused(self, leader: str) -> None:
        self.members[leader].tell(signal.SIGSTOP)
        await self.leader(but=leader)
        await self.append()
        self.members[leader].tell(signal.SIGCONT)
        await self.whole()

    async def cut(self, leader: str) -> None:
        """Entries that only the leader has, whose clients heard nothing."""
        others = [name for name in self.members if name != leader]
        for name in others:
            self.members[name].tell(signal.SIGSTOP)
        tail = [self.client.append_at(leader, self._body()) for _ in range(TAIL)]
        answers = await asyncio.gather(*tail)
        assert not [one for one in answers if one is not None and one.code == Code.SUCCESS]
        await self.members[leader].end()
        for name in others:
            self.members[name].tell(signal.SIGCONT)
        await self.append()
        await self.members[leader].start()
        await self.whole()

    async def emptied(self, leader: str) -> None:
        """A follower of the other kind, where there is one."""
        followers = [name for name in self.members if name != leader]
        other = next(
            (one for one in followers if self.kinds[one] != self.kinds[leader]), followers[0]
        )
        await self.members[other].end()
        shutil.rmtree(self.members[other].config.store_dir)
        await self.append()
        await self.members[other].start()
        await self.whole()


def ours_with_one_of_java(stage: Stage) -> list[Row]:
    """Two of ours and one of Java's."""
    return asyncio.run(_scenario(stage, "two-ours", ("java", "ours", "ours"), batch=False))


def java_with_one_of_ours(stage: Stage) -> list[Row]:
    """Two of Java's and one of ours; Java sends batches."""
    return asyncio.run(_scenario(stage, "two-java", ("ours", "java", "java"), batch=True))


async def _scenario(stage: Stage, name: str, kinds: Sequence[str], batch: bool) -> list[Row]:
    group = Mixed(stage, stage.work / f"dledger-{name}", kinds, batch)
    rows = []
    try:
        await group.start()
        for kind in ("java", "ours"):
            for what in (group.killed, group.paused, group.cut, group.emptied):
                rows.append(await _blow(stage, group, name, kind, what))
        rows.append(await _read_back(group, name))
        await group.whole()
        await group.end(signal.SIGTERM)
    finally:
        await group.end()
    return [*rows, _logs(group, name)]


async def _blow(
    stage: Stage, group: Mixed, name: str, kind: str, what: Callable[[str], object]
) -> Row:
    leader = await group.led_by(kind)
    await group.append()
    await group.append_by_java(5)
    stage.say(f"{name}: {leader} of {kind} leads, {what.__name__}")
    before = len(group.client.acknowledged)
    await what(leader)  # type: ignore[misc]
    taken = len(group.client.acknowledged) - before
    return Row(f"{name}: a leader of {kind} {what.__name__}", f"whole again, {taken} acknowledged")


async def _read_back(group: Mixed, name: str) -> Row:
    """Through DLedger's own client, from whoever leads."""
    wrong = []
    for index, body in list(group.client.acknowledged.items())[::7]:
        if await group.java.get(index) != body:
            wrong.append(index)
    asked = len(list(group.client.acknowledged)[::7])
    return Row(f"{name}: read by DLedger's client", f"{asked} entries, wrong: {wrong}", not wrong)


def _logs(group: Mixed, name: str) -> Row:
    logs = {member: one.identities() for member, one in group.members.items()}
    flaws = []
    first = next(iter(logs.values()))
    for member, log in logs.items():
        if log != first:
            flaws.append(f"{member} ({len(log)}) differs at {_differs(first, log)}")
        if lost := group.client.lost(log):
            flaws.append(f"{member} lost {lost[:5]}")
    good = (
        f"{len(first)} entries, {max((term for _, term, _ in first), default=0)} terms, equal by "
        f"(index, term, checksum); {len(group.client.acknowledged)} acknowledged, 0 lost, "
        f"{group.client.unknown} unknown"
    )
    return Row(f"{name}: logs", "; ".join(flaws) or good, not flaws)


def _differs(one: Sequence[Identity], other: Sequence[Identity]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
