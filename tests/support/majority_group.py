"""A majority group of real members for tests: in the test's loop, or as processes; and its client.

A client appends where somebody leads, and keeps what it was acknowledged: that is never lost.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from brokers.majority.entry import Entry, body_crc
from brokers.majority.store.folder import MajorityFolder, folder_name
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import NOT_APPENDED, Code
from brokers.majority.wire.messages import (
    AppendRequest,
    AppendResponse,
    GetRequest,
    GetResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
)
from brokers.process.majority.config import MemberConfig
from brokers.process.majority.listener import MemberListener
from brokers.process.majority.member import MemberProcess, OpenedFolder
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import WAIT_S, free_port, until

GROUP = "g"
ROOT = Path(__file__).resolve().parents[2]
# Elections within a second, and heartbeats that a busy machine does not make late.
QUICK: dict[str, object] = {
    "heartbeat_ms": 500,
    "heartbeats_missed_max": 5,
    "vote_pause_min_ms": 50,
    "vote_pause_max_ms": 250,
    "checkpoint_ms": 500,
    "data_file_bytes": 1 << 20,
    "index_file_bytes": 1 << 16,
    "first_entry": "empty",
}
CALL_MS = 3_000
ASK_AGAIN_S = 0.02

Identity = tuple[int, int, int]
"""Index, term and checksum of the body of an entry: what logs are compared by."""


def addresses(count: int) -> dict[str, str]:
    """By member id, on free ports."""
    return {f"n{number}": f"127.0.0.1:{free_port()}" for number in range(count)}


def peers_text(members: Mapping[str, str]) -> str:
    """In DLedger's form."""
    return ";".join(f"{member}-{address}" for member, address in members.items())


def member_config(
    folder: Path, members: Mapping[str, str], self_id: str, **changes: object
) -> MemberConfig:
    given = {"group": GROUP, "self_id": self_id, "peers": peers_text(members), "store_dir": folder}
    return MemberConfig.model_validate({**QUICK, **given, **changes})


async def running_member(
    config: MemberConfig, listener: MemberListener | None = None
) -> MemberProcess:
    """In this loop."""
    member = MemberProcess(config, OpenedFolder(config), listener)
    await member.start()
    return member


def identity(entry: Entry) -> Identity:
    return entry.index, entry.term, entry.body_crc or body_crc(entry.body)


def identities(log_folder: Path, config: MemberConfig) -> list[Identity]:
    """Of a member that has ended: every entry of its folder, opened with the product's own start.
    Java's are opened as well.
    """
    opened = MajorityFolder(log_folder / folder_name(config.self_id), config.store, same_boot=True)
    try:
        log = opened.log
        found = (log.get(at) for at in range(max(log.first_index, 0), log.last.index + 1))
        return [identity(entry) for entry in found if entry is not None]
    finally:
        opened.close()


class MemberProgram:
    """`python -m brokers.process.majority` in a process of its own."""

    def __init__(
        self, folder: Path, members: Mapping[str, str], self_id: str, **changes: object
    ) -> None:
        self.folder = folder / self_id
        self.folder.mkdir(parents=True, exist_ok=True)
        self.self_id, self.address = self_id, members[self_id]
        self.config = member_config(self.folder / "store", members, self_id, **changes)
        self._file = self.folder / "member.toml"
        fields = self.config.model_dump(mode="json", exclude_defaults=True)
        self._file.write_text(
            "".join(f"{name} = {_toml(value)}\n" for name, value in fields.items())
        )
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "brokers.process.majority", "--config", str(self._file)),
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def tell(self, number: int) -> None:
        """A signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self, number: int = signal.SIGKILL) -> int | None:
        """Its exit code; None when it was not started."""
        if self.process is None:
            return None
        if self.process.returncode is None:
            self.tell(signal.SIGCONT)
            self.tell(number)
        return await asyncio.wait_for(self.process.wait(), WAIT_S)

    def said(self) -> str:
        """Its log."""
        return (self.folder / "log").read_text()

    def identities(self) -> list[Identity]:
        return identities(self.config.store_dir, self.config)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


class GroupClient:
    """Of any members, ours or Java's. `acknowledged`: body by index."""

    def __init__(self, members: Mapping[str, str], group: str = GROUP) -> None:
        self.members, self._group = dict(members), group
        self._client = RemotingClient()
        self.acknowledged: dict[int, bytes] = {}
        self.unknown = 0
        self._leads = next(iter(self.members))

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, member: str, request: Request, call_ms: int = CALL_MS) -> Response | None:
        """None: no answer."""
        code = json_bodies.code_of(request)
        frame = RemotingCommand.request(code, body=json_bodies.encode(request))
        try:
            answer = await self._client.call(self.members[member], frame, call_ms)
            return json_bodies.decode_response(code, answer.body)
        except RemotingError:
            return None

    async def leader_by(self, member: str) -> str | None:
        """Who leads, as this member says it."""
        answer = await self.ask(
            member, MetadataRequest(group=self._group, remote_id=member), call_ms=1_000
        )
        known = isinstance(answer, MetadataResponse) and answer.leader_id in self.members
        return answer.leader_id if known and answer is not None else None

    async def leader(self, among: Sequence[str] | None = None) -> str:
        """Once all of these say the same, and it is one of them."""
        asked = list(among or self.members)
        found: list[str] = []

        async def agreed() -> bool:
            said = {await self.leader_by(member) for member in asked}
            if len(said) == 1 and (leader := next(iter(said))) in asked:
                found.append(leader)
            return bool(found)

        await until(agreed, f"one of {asked} leads", pause_s=ASK_AGAIN_S)
        return found[0]

    async def standings(self, among: Sequence[str] | None = None) -> dict[str, MetadataResponse]:
        """What each of these says of itself, of those that answer."""
        found = {}
        for member in among or self.members:
            request = MetadataRequest(group=self._group, remote_id=member)
            answer = await self.ask(member, request, call_ms=1_000)
            if isinstance(answer, MetadataResponse):
                found[member] = answer
        return found

    async def whole(self, among: Sequence[str] | None = None) -> None:
        """Until all of these (of ours) end where all is committed, at one place."""
        asked = list(among or self.members)

        async def ends() -> bool:
            said = (await self.standings(asked)).values()
            places = {(one.end, one.committed_index) for one in said}
            end, committed = next(iter(places), (None, None))
            return (
                len(said) == len(asked)
                and len(places) == 1
                and end is not None
                and end.index == committed
            )

        await until(ends, f"{asked} are whole", pause_s=ASK_AGAIN_S)

    async def append_at(self, member: str, body: bytes) -> AppendResponse | None:
        """None: no answer, which is unknown."""
        request = AppendRequest(group=self._group, remote_id=member, body=body)
        answer = await self.ask(member, request)
        assert answer is None or isinstance(answer, AppendResponse)
        if answer is not None and answer.code == Code.SUCCESS:
            self.acknowledged[answer.index] = body
        return answer

    async def append(self, body: bytes, within_s: float = WAIT_S) -> int | None:
        """Its index, wherever somebody leads; None: unknown, it may be there."""
        deadline = asyncio.get_running_loop().time() + within_s
        for turn in itertools.count(1):
            answer = await self.append_at(self._leads, body)
            if answer is not None and answer.code == Code.SUCCESS:
                return answer.index
            was_sent = self._client.connection(self.members[self._leads]) is not None
            self._leads = self._next(answer)
            if was_sent if answer is None else answer.code not in NOT_APPENDED:
                self.unknown += 1
                return None
            if not turn % len(self.members):
                await asyncio.sleep(ASK_AGAIN_S)
            if asyncio.get_running_loop().time() > deadline:
                break
        raise AssertionError(f"nobody took an append within {within_s} s")

    def _next(self, answer: AppendResponse | None) -> str:
        """Whom to ask now: the leader that was named, or one after the other."""
        if answer is not None and answer.leader_id in self.members:
            if answer.leader_id != self._leads:
                return answer.leader_id
            if answer.code in (Code.LEADER_NOT_READY, Code.LEADER_TRANSFERRING):
                return self._leads
        names = list(self.members)
        return names[(names.index(self._leads) + 1) % len(names)]

    async def get(self, member: str, index: int) -> Entry | None:
        request = GetRequest(group=self._group, remote_id=member, begin_index=index)
        answer = await self.ask(member, request)
        return answer.entries[0] if isinstance(answer, GetResponse) and answer.entries else None

    def lost(self, log: Sequence[Identity]) -> list[int]:
        """Indexes of what was acknowledged and is not, or is something else, in a member's log."""
        by_index = {index: crc for index, _, crc in log}
        return [
            index
            for index, body in self.acknowledged.items()
            if by_index.get(index) != body_crc(body)
        ]
