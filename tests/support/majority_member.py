"""One member of a majority group in a test: its effects are carried out at once, what it says is
kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokers.majority.entry import Entry, Place
from brokers.majority.log_port import TermAndVote
from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    Answer,
    AppendDone,
    Effect,
    Flush,
    LeaderReady,
    LeaveGroup,
    ReadDone,
    Report,
    RoleChanged,
    Send,
)
from brokers.majority.quorum.history import Fact, History, watched
from brokers.majority.quorum.log_effects import do, new_entries
from brokers.majority.quorum.standing import Role
from brokers.majority.quorum.turns import Step, Turns
from brokers.majority.wire.codes import PushType, VoteResult
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    PushRequest,
    PushResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from tests.simulation.majority.sim_log import SimulatedLog, SimulatedTerms

GROUP = "g"


def entry(index: int, term: int, body: bytes = b"x") -> Entry:
    return Entry(index, term, 100 * index, body)


def log_of(*terms: int, first: int = 0, committed: int = -1) -> SimulatedLog:
    """A log on the disk with entries of these terms."""
    log = SimulatedLog(first, 0)
    for at, term in enumerate(terms):
        log.begin_with(entry(first, term)) if not at else log.append_as_follower(
            entry(first + at, term)
        )
    log.flush()
    log.committed_index = committed
    return log


class OneMember:
    """`m0` of a group of three, unless the configuration says otherwise. `holds_flushes`: a flush
    is under way until `flush` is called.
    """

    def __init__(
        self,
        log: SimulatedLog | None = None,
        term: int = 0,
        voted_for: str | None = None,
        **settings: object,
    ) -> None:
        given = {"members": ("m0", "m1", "m2"), "self_id": "m0", "group": GROUP, **settings}
        self.config = QuorumConfig(**given)  # type: ignore[arg-type]
        self.log = log or SimulatedLog(0, 0)
        self.terms = SimulatedTerms()
        self.terms.state = TermAndVote(term, voted_for)
        self.now_ms = 0
        self.holds_flushes = False
        self.flushes = 0
        self.sent: list[Send] = []
        self.answers: dict[object, Response] = {}
        self.done: dict[object, AppendDone] = {}
        self.was_read: dict[object, ReadDone] = {}
        self.order: list[str] = []
        self.reports: list[Report] = []
        self.left: str | None = None
        self.core = QuorumCore(self.config, self.log, self.terms.state, self.now_ms, lambda: 0.0)
        self.facts: list[Fact] = []
        self._watch()

    def _watch(self) -> None:
        self.history = History(self.core, self.log, self.now_ms)

        def tell(kind: str, fields: dict[str, Any]) -> None:
            self.facts.append(Fact(kind, fields))

        do = watched(self._do, self.history, lambda: self.now_ms, tell)
        self._turns = Turns(self.core, do)

    # -- inputs ----------------------------------------------------------------------------------

    def ask(self, request: Request, token: object = "asked") -> Response | None:
        """The answer, None while there is none."""
        self.answers.pop(token, None)
        self.carry_out(self.core.request(token, request, self.now_ms))
        return self.answers.get(token)

    def tick(self, ms: int = 10) -> None:
        self.now_ms += ms
        self.carry_out(self.core.tick(self.now_ms))

    def pass_time(self, ms: int, step_ms: int = 50) -> None:
        for _ in range(0, ms, step_ms):
            self.tick(step_ms)

    def answer(self, sent: Send, response: Response | None) -> None:
        self.carry_out(self.core.answered(sent.token, response, self.now_ms))

    def append(self, token: object, *bodies: bytes) -> AppendDone | None:
        self.carry_out(self.core.append(token, new_entries(token, bodies), self.now_ms))
        return self.done.get(token)

    def read(self, token: object) -> ReadDone | None:
        self.carry_out(self.core.read(token, self.now_ms))
        return self.was_read.get(token)

    def flush(self) -> None:
        self.log.flush()
        self.carry_out(self.core.flushed(self.now_ms))

    # -- what others say -------------------------------------------------------------------------

    def vote(self, candidate: str, term: int, end: Place) -> Response | None:
        return self.ask(
            VoteRequest(
                group=GROUP, remote_id=self.config.self_id, local_id=candidate,
                leader_id=candidate, term=term, end=end,
            )
        )  # fmt: skip

    def heartbeat(self, leader: str, term: int) -> Response | None:
        return self.ask(
            HeartBeatRequest(
                group=GROUP,
                remote_id=self.config.self_id,
                local_id=leader,
                leader_id=leader,
                term=term,
            )
        )

    def push(
        self,
        kind: PushType,
        *entries: Entry,
        leader: str = "m1",
        term: int = 5,
        commit: int = -1,
        previous: Place | None = None,
        java: bool = False,
        token: object = "asked",
    ) -> PushResponse | None:
        """Of one of ours, unless it is `java`."""
        request = PushRequest(
            group=GROUP, remote_id=self.config.self_id, local_id=leader, leader_id=leader,
            term=term, type=kind, entries=entries, commit_index=commit, previous=previous,
            counts_current=not java,
        )  # fmt: skip
        answer = self.ask(request, token)
        assert answer is None or isinstance(answer, PushResponse)
        return answer

    def lead(self) -> None:
        """Let it win an election, and take the first entry of its term from its log."""
        while self.core.standing.role is not Role.LEADER:
            self.tick(100)
            for sent in self.said(VoteRequest):
                assert isinstance(sent.message, VoteRequest)
                self.answer(sent, accepts(sent.message))

    # -- what it says ----------------------------------------------------------------------------

    def said(self, kind: type[Request], peer: str | None = None) -> list[Send]:
        """What it sent of this kind since this was asked before, taken out."""
        wanted = [
            one for one in self.sent if isinstance(one.message, kind) and peer in (None, one.peer)
        ]
        self.sent = [one for one in self.sent if one not in wanted]
        return wanted

    def pushes(self, peer: str = "m1", kind: PushType | None = None) -> list[Send]:
        """The same for pushes to a peer."""
        found = self.said(PushRequest, peer)
        return [
            one
            for one in found
            if isinstance(one.message, PushRequest) and kind in (None, one.message.type)
        ]

    # -- effects ---------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[Effect]) -> None:
        self._turns.hear(lambda _: list(effects))

    def told(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What was told to history since this was asked before, taken out."""
        found = [one.fields for one in self.facts if kind in (None, one.kind)]
        self.facts = [one for one in self.facts if kind not in (None, one.kind)]
        return found

    def _do(self, effect: Effect) -> Step | None:
        self.order.append(type(effect).__name__)
        match effect:
            case Send():
                self.sent.append(effect)
            case Answer():
                self.answers[effect.token] = effect.message
            case Flush():
                self.flushes += 1
                if not self.holds_flushes:
                    self.log.flush()
                    return lambda core: core.flushed(self.now_ms)
            case AppendDone():
                self.done[effect.token] = effect
            case ReadDone():
                self.was_read[effect.token] = effect
            case LeaveGroup():
                self.left = effect.reason
            case Report():
                self.reports.append(effect)
            case RoleChanged() | LeaderReady():
                pass
            case _:
                return do(self.log, self.terms, effect, self.now_ms)
        return None


def follower(*terms: int, committed: int = -1, **settings: object) -> OneMember:
    """Of term 5, which `m1` leads; its log has entries of these terms."""
    member = OneMember(log_of(*terms, committed=committed), term=5, **settings)
    member.heartbeat("m1", 5)
    return member


def leader(*terms: int, log: SimulatedLog | None = None, **settings: object) -> OneMember:
    """It leads; its log has entries of these terms and its own first one behind them. It compares
    what was the last one when it was elected.
    """
    member = OneMember(log or log_of(*(terms or (0,))), **settings)
    member.lead()
    return member


def accepts(request: VoteRequest) -> Response:
    """The vote of a member that gives it."""
    return VoteResponse(
        group=GROUP, leader_id=request.leader_id, term=request.term, result=VoteResult.ACCEPT
    )
