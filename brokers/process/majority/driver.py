"""A member in a running loop: the pure core, its files, its peers, the clock.

Responsible for: effects in their order (`brokers/majority/quorum/turns.py`), the tick, flushes and
checkpoints on a thread of their own, appends that are offered together, and the end of everything
once the disk refused. Refuses to know: sockets, what clients ask, any rule.

Term and vote, and what a log has to forget, are made durable in the loop, for nothing may be said
before; a disk that hangs so makes the member silent, and the others elect another leader.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from brokers.clock import Clock
from brokers.majority.entry import NONE
from brokers.majority.quorum import log_effects
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
    ReadDone,
    Report,
    RestartAt,
    RoleChanged,
    SaveTerm,
    Send,
    TruncateFrom,
)
from brokers.majority.quorum.history import STOPPED, History, watched
from brokers.majority.quorum.turns import Step, Turns
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.small_files import TermFile
from brokers.majority.wire.messages import Request, Response
from brokers.process.majority.listener import MemberListener
from brokers.store.files.errors import LogError

TICK_MS = 10
# Appends that come in one turn of the loop are written and sent together, up to these.
TOGETHER_ENTRIES = 1_024
TOGETHER_BYTES = 8 << 20

_log = logging.getLogger("regent.majority")


class Store(Protocol):
    """What a member keeps: `MajorityFolder`."""

    log: EntryLog
    terms: TermFile


class Asked(Protocol):
    """The token of an append or a read: `done` hears once what came of it."""

    def done(self, effect: Any, /) -> None:
        """Its AppendDone or ReadDone."""
        ...


class Offered:
    """An append of a client: `size` and `build` as in NewEntry. `done` hears once what came of it.
    `position`: of its entry, -1 while it has none.
    """

    __slots__ = ("_build", "_done", "position", "size")

    def __init__(
        self, size: int, build: Callable[[int], bytes], done: Callable[[AppendDone, int], None]
    ) -> None:
        self._build = build
        self._done = done
        self.size, self.position = size, NONE

    def build(self, position: int) -> bytes:
        """Where it goes is known now."""
        self.position = position
        return self._build(position)

    def done(self, effect: AppendDone, /) -> None:
        """Its AppendDone."""
        self._done(effect, self.position)


class MemberDriver:
    """`send`: begins a call to a peer, whose answer goes to `heard`."""

    def __init__(
        self,
        config: QuorumConfig,
        store: Store,
        send: Callable[[Send], None],
        listener: MemberListener,
        clock: Clock | None = None,
        checkpoint_ms: int = 3_000,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock or Clock()
        self._store = store
        self._send = send
        self._listener = listener
        self.core = QuorumCore(config, store.log, store.terms.state, self._clock.now_ms(), chance)
        self._history = History(self.core, store.log, self._clock.now_ms())
        told = watched(self._do, self._history, self._clock.now_ms, listener.happened)
        self._turns = Turns(self.core, told)
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "majority-flush")
        self._checkpoint_ms = checkpoint_ms
        self._ticks: asyncio.TimerHandle | None = None
        self._checkpoints: asyncio.TimerHandle | None = None
        self._offered: list[Offered] = []
        self._offered_bytes = 0
        self._ended = False

    def start(self) -> None:
        """Time passes from here on."""
        self._tick()
        self._checkpoint_later()

    async def stop(self) -> None:
        """Nothing is heard any more; a flush under way is waited for."""
        if not self._ended:
            for fact in self._history.over(STOPPED, self._now_ms()):
                self._listener.happened(*fact)
        self._ended = True
        for timer in filter(None, (self._ticks, self._checkpoints)):
            timer.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    # -- inputs ------------------------------------------------------------------------------------

    def request(self, answer: Callable[[Response], None], request: Request) -> None:
        """Of another member; `answer` is called once, or never: then this member has left."""
        self._hear(lambda core: core.request(answer, request, self._now_ms()))

    def heard(self, token: int, answer: Response | None) -> None:
        """Of a peer, of a call that was begun by `send`."""
        self._hear(lambda core: core.answered(token, answer, self._now_ms()))

    def append(self, offered: Offered) -> None:
        """With what else comes in this turn of the loop."""
        if not self._offered:
            self._loop.call_soon(self._append_together)
        self._offered.append(offered)
        self._offered_bytes += offered.size
        if len(self._offered) >= TOGETHER_ENTRIES or self._offered_bytes >= TOGETHER_BYTES:
            self._append_together()

    def append_now(self, token: Asked, entries: Sequence[NewEntry]) -> None:
        """Entries that follow each other, of which the last one has the token: written, or refused,
        when this returns. Never called from within an effect.
        """
        self._hear(lambda core: core.append(token, entries, self._now_ms()))

    def read(self, token: Asked) -> None:
        """How far the log is committed, by the group's word."""
        self._hear(lambda core: core.read(token, self._now_ms()))

    def storage_failed(self, reason: str) -> None:
        """The disk refused something that is no effect."""
        self._hear(lambda core: core.storage_failed(reason, self._now_ms()))

    def transfer(self, answer: Callable[[Response], None], transferee: str) -> None:
        """Hand over to this member; `answer` hears what came of it."""
        self._hear(lambda core: core.transfer(answer, transferee, self._now_ms()))

    def _append_together(self) -> None:
        offered, self._offered, self._offered_bytes = self._offered, [], 0
        if offered:
            self._hear(lambda core: self._append(core, offered))

    def _append(self, core: QuorumCore, offered: list[Offered]) -> list[Effect]:
        refused = core.append_refusal()
        if refused is not None:
            term, leader_id = core.standing.term, core.standing.leader_id
            return [AppendDone(one, refused, NONE, term, leader_id) for one in offered]
        entries = [NewEntry(one, one.size, one.build) for one in offered]
        return core.append(None, entries, self._now_ms())

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def _hear(self, step: Step) -> None:
        """Whatever fails while it is carried out ends this member's part: promises that were to
        follow are not given.
        """
        if self._ended:
            return
        try:
            self._turns.hear(step)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._ended:
            return
        if isinstance(error, (LogError, OSError)):
            _log.error("the disk refused: %s", error)
        else:
            _log.exception("a member failed", exc_info=error)
        reason = f"{type(error).__name__}: {error}"
        try:
            self._turns.hear_first(lambda core: core.storage_failed(reason, self._now_ms()))
        except Exception:
            _log.exception("a member failed while it left")
            self._ended = True
            self._listener.left(reason)

    # -- effects -----------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> Step | None:
        match effect:
            case Send():
                self._send(effect)
            case Answer():
                effect.token(effect.message)  # type: ignore[operator]
            case AppendDone() | ReadDone():
                effect.token.done(effect)  # type: ignore[attr-defined]
            case Flush():
                self._on_thread(self._store.log.flush, lambda core: core.flushed(self._now_ms()))
            case RoleChanged():
                self._listener.role_changed(effect.standing)
            case LeaderReady():
                self._listener.leader_ready(effect.term)
            case LeaveGroup():
                self._listener.left(effect.reason)
            case Report():
                self._listener.reported(effect.kind, effect.fields)
            case (
                SaveTerm()
                | AppendAsLeader()
                | AppendAsFollower()
                | TruncateFrom()
                | RestartAt()
                | Commit()
            ):
                return self._to_files(effect)
        return None

    def _to_files(self, effect: log_effects.LogEffect) -> Step | None:
        heard = log_effects.do(self._store.log, self._store.terms, effect, self._now_ms())
        if isinstance(effect, Commit):
            self._listener.committed(effect.index)
        return heard

    # -- time and disk -----------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticks = self._loop.call_later(TICK_MS / 1000, self._tick)
        self._hear(lambda core: core.tick(self._now_ms()))
        self._listener.ticked()

    def _checkpoint_later(self) -> None:
        self._checkpoints = self._loop.call_later(self._checkpoint_ms / 1000, self._checkpoint)

    def _checkpoint(self) -> None:
        def over(_core: QuorumCore) -> list[Effect]:
            self._checkpoint_later()
            return []

        self._on_thread(self._store.log.checkpoint, over)

    def _on_thread(self, what: Callable[[], object], then: Step) -> None:
        """One at a time; `then` when it is over."""

        def over(done: asyncio.Future[object]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                self._failed(error)
            elif not done.cancelled():
                self._hear(then)

        self._loop.run_in_executor(self._thread, what).add_done_callback(over)
