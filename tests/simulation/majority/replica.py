"""One replica: the product's core, a log and a file of terms in memory, and a shell between them.

Responsible for: carrying out effects in their order, calls and answers, ticks, lives and deaths,
the time that a flush takes. Refuses to know: rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    Answer,
    AppendDone,
    Commit,
    Effect,
    Flush,
    LeaderReady,
    LeaveGroup,
    ReadDone,
    Report,
    RestartAt,
    RoleChanged,
    Send,
    TruncateFrom,
)
from brokers.majority.quorum.history import History, watched
from brokers.majority.quorum.log_effects import LogEffect, do, new_entries
from brokers.majority.quorum.turns import Step, Turns
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import Request, Response
from tests.simulation.majority.links import CALL_MS, request_over, response_over
from tests.simulation.majority.sim_log import SimulatedLog, SimulatedTerms
from tests.support.majority_history import Told

if TYPE_CHECKING:
    from tests.simulation.majority.group import Group

TICK_MS = 25
Done = Callable[[Code, int], None]


class PowerLost(Exception):
    """In the middle of a list of effects."""


class Replica:
    """`plain`: others hear no more of it than of Java's, and it of them; `old`: nor how many
    entries it took. `life` counts starts.
    """

    def __init__(
        self, group: Group, config: QuorumConfig, log: SimulatedLog, plain: bool, old: bool
    ) -> None:
        self.group, self.config, self.plain = group, config, plain
        self.name = config.self_id
        self.old = old
        self.log, self.terms = log, SimulatedTerms()
        self.core: QuorumCore | None = None
        self.life = 0
        self.paused_until_ms = 0
        self.flush_ms = 1
        self.dies_in: int | None = None
        self._turns: Turns | None = None
        self._clients: dict[int, Done] = {}

    @property
    def up(self) -> bool:
        return self.core is not None

    @property
    def leads(self) -> bool:
        return self.core is not None and self.core.ready

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.group.world
        self.life += 1
        self._clients.clear()
        self.core = QuorumCore(
            self.config, self.log, self.terms.state, world.now_ms, world.chance.random
        )
        history = History(self.core, self.log, world.now_ms)
        do = watched(self._do, history, lambda: world.now_ms, self._happened)
        self._turns = Turns(self.core, do)
        self._tick(self.life)

    def stop(self, power: bool) -> None:
        """With a loss of power, what was not flushed is gone."""
        self.core = None
        self.life += 1
        self.dies_in = None
        if power:
            self.log.lose_power()
        self.group.promises.stopped(self)

    def _tick(self, life: int) -> None:
        if self.core is None or self.life != life:
            return
        world = self.group.world
        self.hear(lambda core: core.tick(world.now_ms))
        world.after(TICK_MS, lambda: self._tick(life))

    def hear(self, what: Step) -> None:
        """One input, now, or when the process runs again."""
        world, life = self.group.world, self.life
        if world.now_ms < self.paused_until_ms:
            wait_ms = self.paused_until_ms - world.now_ms
            world.after(wait_ms, lambda: self.hear(what) if self.life == life else None)
            return
        turns = self._turns
        if self.core is None or turns is None:
            return
        try:
            turns.hear(lambda core: what(core) if core is self.core else [])
        except PowerLost:
            self.stop(power=True)

    def _happened(self, kind: str, fields: dict[str, Any]) -> None:
        self.group.told.append(Told(self.name, self.life, self.group.world.now_ms, kind, fields))

    # -- effects ---------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> Step | None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise PowerLost
        group, now_ms = self.group, self.group.world.now_ms
        match effect:
            case Send():
                self._send(effect)
            case Answer():
                effect.token(effect.message)  # type: ignore[operator]
            case Flush():
                self._flush()
            case AppendDone():
                self._told(effect.token, effect)
            case ReadDone():
                self._told(effect.token, effect)
            case RoleChanged():
                group.promises.role(self, effect.standing)
            case LeaderReady():
                group.promises.leader_ready(self, effect.term)
            case LeaveGroup():
                group.promises.left(self, effect.reason)
            case Report():
                group.world.count(f"report.{effect.kind}")
                group.promises.reported(self, effect)
            case _:
                return self._to_log(effect, now_ms)
        return None

    def _to_log(self, effect: LogEffect, now_ms: int) -> Step | None:
        heard = do(self.log, self.terms, effect, now_ms)
        match effect:
            case RestartAt():
                self.group.world.count("log.restarted")
            case TruncateFrom():
                self.group.world.count("log.truncated")
            case Commit():
                self.group.promises.committed(self, effect.index)
        return heard

    def _flush(self) -> None:
        world, life, end = self.group.world, self.life, self.log.last

        def over() -> None:
            if self.life == life:
                self.log.flushed(end)
                self.hear(lambda core: core.flushed(world.now_ms))

        world.after(self.flush_ms, over)

    # -- calls -----------------------------------------------------------------------------------

    def _send(self, effect: Send) -> None:
        group, life, token = self.group, self.life, effect.token
        world, heard = group.world, [False]
        world.count("message.sent")
        target = group.replica(effect.peer)
        plain = self.plain or target.plain
        code = json_bodies.code_of(effect.message)
        request = request_over(world, effect.message, plain, effect.binary)

        def hear(answer: Response | None) -> None:
            if not heard[0] and self.life == life:
                heard[0] = True
                self.hear(lambda core: core.answered(token, answer, world.now_ms))

        def answer(response: Response) -> None:
            over = response_over(world, code, response, plain, target.old)
            group.links.carry(target.name, self.name, lambda: hear(over))

        group.links.carry(self.name, target.name, lambda: target.asked(request, answer))
        world.after(CALL_MS, lambda: hear(None))

    def asked(self, request: Request, answer: Callable[[Response], None]) -> None:
        """By another member."""
        if self.core is not None:
            world, life = self.group.world, self.life

            def of_this_life(response: Response) -> None:
                if self.life == life:
                    answer(response)

            self.hear(lambda core: core.request(of_this_life, request, world.now_ms))

    # -- clients ---------------------------------------------------------------------------------

    def append(self, bodies: Sequence[bytes], done: Done) -> None:
        """For a client; `done` hears once what came of it, as long as this process lives."""
        token = self.group.world.next_number()
        self._clients[token] = done
        self.group.promises.waits(self, token)
        now_ms = self.group.world.now_ms
        entries, promises = new_entries(token, bodies), self.group.promises

        def take(core: QuorumCore) -> list[Effect]:
            promises.takes(bodies)
            return core.append(token, entries, now_ms)

        promises.sends(bodies)
        self.hear(take)

    def read(self, done: Done) -> None:
        """As `append`, for one that reads."""
        token = self.group.world.next_number()
        self._clients[token] = done
        self.group.promises.waits(self, token)
        now_ms = self.group.world.now_ms
        self.hear(lambda core: core.read(token, now_ms))

    def _told(self, token: object, effect: AppendDone | ReadDone) -> None:
        assert isinstance(token, int)
        self.group.promises.answered(self, token, effect)
        done = self._clients.pop(token, None)
        if done is not None:
            done(effect.code, effect.index)
