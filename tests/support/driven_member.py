"""A member's driver over a real folder, whose peers are the test.

`ask` and `append` are what a port does with it; what it sends is kept, and answered by `answer_all`
as peers that agree would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.majority.entry import Entry, Place
from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.effects import AppendDone, Send
from brokers.majority.quorum.standing import Standing
from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig
from brokers.majority.wire.codes import PushType, VoteResult
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushRequest,
    PushResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from brokers.process.majority.driver import MemberDriver, Offered
from brokers.process.majority.listener import MemberListener

GROUP, SIZES = "g", MajorityStoreConfig(1 << 16, 1 << 14)
CHECKPOINT_MS = 50


class Noted(MemberListener):
    """`happenings`: kind, fields, and what the file of terms said then."""

    def __init__(self, root: Path) -> None:
        self._terms = root / "currterm"
        self.happenings: list[tuple[str, Mapping[str, object], str]] = []
        self.roles: list[Standing] = []
        self.why_left: list[str] = []
        self.commits: list[int] = []

    def role_changed(self, standing: Standing) -> None:
        self.roles.append(standing)

    def committed(self, index: int) -> None:
        self.commits.append(index)

    def happened(self, kind: str, fields: Mapping[str, object]) -> None:
        self.happenings.append((kind, fields, self._terms.read_text()))

    def left(self, reason: str) -> None:
        self.why_left.append(reason)


class Driven:
    """One of three; the test is the other two."""

    def __init__(self, root: Path) -> None:
        self.folder = MajorityFolder(root, SIZES)
        self.listener = Noted(root)
        self.sent: list[Send] = []
        config = QuorumConfig(group=GROUP, self_id="m0", members=("m0", "m1", "m2"))
        self.driver = MemberDriver(
            config,
            self.folder,
            self.sent.append,
            self.listener,
            checkpoint_ms=CHECKPOINT_MS,
            chance=lambda: 0.0,
        )

    def on_disk(self) -> str:
        return (self.folder.root / "currterm").read_text()

    async def ask(self, request: Request, look: Callable[[], object] = lambda: None) -> Response:
        """The answer; `look` is called when it is given."""
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def answer(response: Response) -> None:
            look()
            answered.set_result(response)

        self.driver.request(answer, request)
        return await asyncio.wait_for(answered, 60)

    async def lead(self) -> None:
        """Both others vote for it, and take what it pushes."""
        self.driver.start()
        while not self.driver.core.ready:
            self.answer_all()
            await asyncio.sleep(0.005)

    def answer_all(self) -> None:
        sent, self.sent[:] = list(self.sent), []
        for one in sent:
            self.driver.heard(one.token, _agrees(one.message))

    async def append(self, *bodies: bytes) -> list[asyncio.Future[tuple[AppendDone, int]]]:
        """All offered in one turn of the loop."""
        futures = []
        for body in bodies:
            future: asyncio.Future[tuple[AppendDone, int]] = (
                asyncio.get_running_loop().create_future()
            )

            def done(
                outcome: AppendDone,
                position: int,
                future: asyncio.Future[tuple[AppendDone, int]] = future,
            ) -> None:
                future.set_result((outcome, position))

            self.driver.append(Offered(len(body), lambda _, body=body: body, done))
            futures.append(future)
        await asyncio.sleep(0)
        return futures


def _agrees(message: Request) -> Response | None:
    term, name = message.term, message.remote_id
    match message:
        case VoteRequest():
            return VoteResponse(group=GROUP, term=term, result=VoteResult.ACCEPT)
        case HeartBeatRequest():
            return HeartBeatResponse(group=GROUP, local_id=name, term=term)
        case PushRequest():
            end = message.last_index if message.entries else message.commit_index
            return PushResponse(
                group=GROUP, term=term, index=message.first_index, count=len(message.entries),
                end_index=end,
            )  # fmt: skip
    return None


def vote(term: int = 3) -> VoteRequest:
    """Of m1, whose log is longer."""
    return VoteRequest(
        group=GROUP, remote_id="m0", local_id="m1", leader_id="m1", term=term, end=Place(0, 9)
    )


def push(*entries: Entry, term: int = 3, previous: Place | None = None) -> PushRequest:
    """Of m1, which leads."""
    return PushRequest(
        group=GROUP, remote_id="m0", local_id="m1", leader_id="m1", term=term,
        type=PushType.APPEND, entries=entries, previous=previous or Place(), counts_current=True,
    )  # fmt: skip
