"""Three members with logs in real files (`brokers.majority.quorum.core`), every message in its
bytes on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.majority.quorum.standing import Role
from brokers.majority.store.folder import MajorityFolder
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import PushRequest
from tests.support.majority_member import OneMember
from tests.unit.brokers.majority.store.majority_samples import kill, small_folder

NAMES = ("m0", "m1", "m2")


class Trio:
    """Who is in `away` neither hears nor is heard."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.away: set[str] = set()
        self.folders: dict[str, MajorityFolder] = {}
        self.members: dict[str, OneMember] = {}
        self.now_ms = 0
        self.binary = 0
        for name in NAMES:
            self.start(name)

    def start(self, name: str) -> None:
        """From what its folder says."""
        folder = self.folders[name] = small_folder(self._root / name)
        state = folder.terms.state
        rank = {one: at for at, one in enumerate(NAMES)}
        member = OneMember(
            folder.log,  # type: ignore[arg-type]
            state.term,
            state.voted_for,
            self_id=name,
            priorities=rank,
        )
        member.terms = folder.terms  # type: ignore[assignment]
        member.now_ms = self.now_ms
        member.core._heard_ms = self.now_ms
        self.members[name] = member

    def kill(self, name: str) -> None:
        kill(self.folders[name])
        self.away.add(name)

    def run(self, ms: int) -> None:
        for _ in range(0, ms, 50):
            self.now_ms += 50
            for name, member in self.members.items():
                if self.folders[name]._lock.is_held:
                    member.tick(50)
            self._deliver()

    def _deliver(self) -> None:
        while waiting := [(one, sent) for one in self.members.values() for sent in one.sent]:
            for one in self.members.values():
                one.sent = []
            for source, sent in waiting:
                code = json_bodies.code_of(sent.message)
                body = json_bodies.encode(sent.message)
                if sent.binary and isinstance(sent.message, PushRequest):
                    body = json_bodies.encode_binary(sent.message)
                    self.binary += 1
                answer = None
                if not {source.config.self_id, sent.peer} & self.away:
                    request = json_bodies.decode_request(code, body)
                    found = self.members[sent.peer].ask(request)
                    if found is not None:
                        answer = json_bodies.decode_response(code, json_bodies.encode(found))
                if self.folders[source.config.self_id]._lock.is_held:
                    source.answer(sent, answer)

    def leader(self) -> OneMember:
        found = [
            one
            for name, one in self.members.items()
            if name not in self.away and one.core.standing.role is Role.LEADER
        ]
        assert len(found) == 1
        return found[0]

    def append(self, member: OneMember, prefix: str, count: int) -> None:
        for number in range(count):
            member.append(f"{prefix}{number}", f"{prefix}{number}:".encode() + b"x" * (37 * number))
            self._deliver()

    def bytes_of(self, name: str) -> bytes:
        """Its log as it lies in its files, up to its end."""
        log = self.folders[name].log
        end = log.data.end_offset
        return bytes(log.data.read(log.data.min_offset, end - log.data.min_offset))


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    for folder in made.folders.values():
        if folder._lock.is_held:
            kill(folder)


def test_three_logs_are_the_same_bytes(trio: Trio) -> None:
    trio.run(2_000)
    leader = trio.leader()
    trio.append(leader, "a", 12)
    trio.run(2_000)
    assert {one.code for one in leader.done.values()} == {Code.SUCCESS}
    assert trio.bytes_of("m0") == trio.bytes_of("m1") == trio.bytes_of("m2")
    assert {one.core.committed for one in trio.members.values()} == {12}
    assert trio.binary > 0


def test_one_that_was_killed_gets_what_it_missed(trio: Trio) -> None:
    trio.run(2_000)
    leader = trio.leader()
    (lost, *_) = [name for name in NAMES if trio.members[name] is not leader]
    trio.append(leader, "a", 5)
    trio.kill(lost)
    trio.append(leader, "b", 5)
    trio.away.discard(lost)
    trio.start(lost)
    trio.run(6_000)
    assert trio.bytes_of(lost) == trio.bytes_of(leader.config.self_id)
    assert trio.members[lost].core.committed == 10


def test_entries_that_a_deposed_leader_wrote_alone_are_gone(trio: Trio) -> None:
    trio.run(2_000)
    old = trio.leader()
    name = old.config.self_id
    trio.append(old, "a", 3)
    trio.away.add(name)
    trio.append(old, "alone", 6)
    trio.run(12_000)
    new = trio.leader()
    trio.append(new, "b", 2)
    trio.away.clear()
    trio.run(8_000)
    assert {old.done[f"alone{number}"].code for number in range(6)} <= {
        Code.TERM_CHANGED,
        Code.WAIT_QUORUM_ACK_TIMEOUT,
    }
    assert trio.leader() is new
    assert trio.bytes_of("m0") == trio.bytes_of("m1") == trio.bytes_of("m2")
    assert b"alone0" not in trio.bytes_of(name)


def test_a_follower_that_begins_anew_gets_everything(trio: Trio, tmp_path: Path) -> None:
    trio.run(2_000)
    leader = trio.leader()
    (lost, *_) = [name for name in NAMES if trio.members[name] is not leader]
    trio.append(leader, "a", 8)
    trio.run(2_000)
    trio.kill(lost)
    for path in sorted((tmp_path / lost).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    trio.start(lost)
    trio.away.discard(lost)
    trio.run(6_000)
    assert trio.bytes_of(lost) == trio.bytes_of(leader.config.self_id)
