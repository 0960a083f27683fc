"""Brokers whose log is one of entries: the same services as above any other log, three of them in
one group, with real clients' ports.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.majority.messages.leading import Leading, Proposal
from brokers.majority.quorum.effects import AppendDone, NewEntry
from brokers.majority.wire.codes import Code
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.waiters import Confirmation
from brokers.store.log.records import decode_messages
from tests.support.broker_group import BrokerGroup, GroupBroker
from tests.support.brokers import pull_request, send_request, until
from tests.support.message_stores import OfEntries, put
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, message

QUEUES = 4


async def send(to: GroupBroker, body: bytes, queue: int = 0) -> RemotingCommand:
    return await to.desk.ask(send_request("T", body, queue), 4_000)


async def sent(group: BrokerGroup, count: int, prefix: str, **leader: str) -> list[bytes]:
    """Sent one after the other to whoever leads, each until it is acknowledged."""
    bodies = [f"{prefix}-{number}".encode() for number in range(count)]
    for number, body in enumerate(bodies):
        code: int = ResponseCode.SYSTEM_ERROR
        while code != ResponseCode.SUCCESS:
            code = (await send(await group.leader(**leader), body, number % QUEUES)).code
    return bodies


async def read(broker: GroupBroker, queue: int) -> list[bytes]:
    """All that a consumer gets of a queue."""
    found: list[bytes] = []
    while True:
        answer = await broker.desk.ask(pull_request("T", queue, len(found)))
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += [bytes(one.fields.body) for one in decode_messages(answer.body)]


async def read_all(broker: GroupBroker) -> list[bytes]:
    queues = [await read(broker, queue) for queue in range(QUEUES)]
    return [body for queue in queues for body in queue]


def all_bodies(broker: GroupBroker) -> list[bytes]:
    """The same of any member, from its own store."""
    return [body for queue in range(QUEUES) for body in bodies(broker.store, queue)]


def in_order(bodies: list[bytes]) -> bool:
    """Whether they stand as they were sent; what was not acknowledged was sent again."""
    once = list(dict.fromkeys(bodies))
    return once == sorted(once, key=lambda body: (body[:1], int(body[2:])))


async def test_what_is_acknowledged_is_read_and_outlives_its_leader(tmp_path: Path) -> None:
    async with BrokerGroup(tmp_path) as group:
        before = await sent(group, 24, "a")
        first = await group.leader()
        assert set(before) == set(await read_all(first))
        await first.end(clean=False)
        after = await sent(group, 24, "b", but=first.name)
        second = await group.leader(but=first.name)
        found = await read_all(second)
        assert set(found) == set(before) | set(after)
        for queue in range(QUEUES):
            assert in_order(await read(second, queue))
        back = await group.start(first.name)
        await until(lambda: back.store.dispatched_offset == second.store.log_end, 20)
        queues = range(QUEUES)
        assert [bodies(back.store, queue) for queue in queues] == [
            bodies(second.store, queue) for queue in queues
        ], "its own log, and the queues above it"


async def test_what_no_majority_has_is_neither_acknowledged_nor_read(tmp_path: Path) -> None:
    async with BrokerGroup(tmp_path) as group:
        await sent(group, 8, "a")
        alone = await group.leader()
        group.cut.add(alone.name)
        (result,) = put(alone, message(body=b"nobody has it"), now_ms=NOW_MS)  # type: ignore[arg-type]
        waiting = alone.leading.confirmation(result.end_offset, 60_000)
        assert result.end_offset > alone.store.confirm_offset
        after = await sent(group, 8, "b")
        assert await waiting is Confirmation.ABORTED
        assert b"nobody has it" not in bodies(alone.store)
        group.cut.clear()
        await until(lambda: alone.store.dispatched_offset == alone.store.log_end, 20)
        await until(lambda: set(after) <= set(all_bodies(alone)), 20)
        assert alone.left is None and b"nobody has it" not in all_bodies(alone), "it was cut"
        leader = await group.leader()
        assert await read_all(leader) == all_bodies(leader)


async def test_who_does_not_lead_passes_sends_on(tmp_path: Path) -> None:
    async with BrokerGroup(tmp_path) as group:
        leader = await group.leader()
        follower = next(one for one in group.brokers.values() if one is not leader)
        while (await send(follower, b"passed on")).code != ResponseCode.SUCCESS:
            pass
        assert b"passed on" in await read(await group.leader(), 0)


# -- what sends need -------------------------------------------------------------------------------


class Core:
    ready = True
    refusal: Code | None = None

    def append_refusal(self) -> Code | None:
        return self.refusal


class AtOnce:
    """A member that takes or refuses at once."""

    def __init__(self, folder: OfEntries, answer: Code | None = None) -> None:
        self.core, self.folder, self.answer = Core(), folder, answer
        self.failures: list[str] = []

    def append(self, proposal: Proposal, entries) -> None:
        assert [one.token for one in entries] == [None] * (len(entries) - 1) + [proposal]
        if self.answer in (None, Code.SUCCESS):
            self.folder.leads, self.folder.term = True, 1
            self.folder.propose(entries)
        if self.answer is not None:
            proposal.done(AppendDone(proposal, self.answer, 0, 1, "n0"))

    def storage_failed(self, reason: str) -> None:
        self.failures.append(reason)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, Code.SUCCESS),
        (Code.SUCCESS, Code.SUCCESS),
        (Code.NOT_LEADER, Code.NOT_LEADER),
        (Code.LEADER_PENDING_FULL, Code.LEADER_PENDING_FULL),
        (Code.DISK_FULL, Code.DISK_FULL),
    ],
)
async def test_what_comes_of_a_proposal_is_known_at_once(
    tmp_path: Path, answer: Code | None, code: Code
) -> None:
    one = OfEntries(tmp_path)
    member = AtOnce(one, answer)
    leading = Leading(member, lambda: 0)  # type: ignore[arg-type]
    entries = [one_entry() for _ in range(3)]
    assert leading.propose(entries) is code
    one.close(clean=True)


def one_entry() -> NewEntry:
    return NewEntry(None, 5, lambda position: b"12345")


async def test_each_way_in_which_waiting_ends(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    member, now = AtOnce(one), [0]
    leading = Leading(member, lambda: now[0])  # type: ignore[arg-type]
    leading.committed(100)
    assert await leading.confirmation(100, 50) is Confirmation.CONFIRMED
    waiting = [leading.confirmation(end, wait) for end, wait in ((150, 50), (200, 50), (300, 900))]
    leading.committed(150)
    now[0] = 60
    leading.tick()
    leading.role_changed()
    assert [one.result() for one in waiting] == [
        Confirmation.CONFIRMED, Confirmation.TIMED_OUT, Confirmation.ABORTED,
    ]  # fmt: skip
    member.core.ready = False
    late = leading.confirmation(100, 50)
    assert await late is Confirmation.ABORTED, "committed by another leader, in whatever entries"
    assert not leading.leads()
    one.close(clean=True)


@pytest.mark.parametrize("code", [None, Code.LEADER_TRANSFERRING, Code.LEADER_NOT_READY])
def test_a_refusal_has_its_name(tmp_path: Path, code: Code | None) -> None:
    one = OfEntries(tmp_path)
    member = AtOnce(one)
    member.core.refusal = code
    leading = Leading(member, lambda: 0)  # type: ignore[arg-type]
    refusal = leading.write_refusal()
    assert refusal is None if code is None else code.name in str(refusal)
    leading.storage_failed("no disk")
    assert member.failures == ["no disk"]
    one.close(clean=True)
