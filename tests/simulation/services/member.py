"""One replica of the set: a folder, and one broker process after the other in it.

Responsible for: starts, deaths, standing still, its clocks, and what the promises are told of it.
Refuses to know: who leads and why, what is promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.remoting.command import RemotingCommand
from brokers.replica.roles import RoleNotice
from brokers.store.files.errors import LogError
from tests.simulation.network import End, wake
from tests.simulation.services.broker import begin, broker_of
from tests.simulation.services.calls import Asked, answered
from tests.simulation.services.control import BEAT_MS, TELL_EVERY_MS
from tests.simulation.services.links import Links
from tests.simulation.services.observed import DurableHistory
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Wire
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.services.realm import Realm

RESTARTED_MS, SAMPLE_MS = 200, 50


class MemberLoop(VirtualLoop):
    """What nobody waited for is told."""

    def __init__(self, member: Member) -> None:
        super().__init__(member.world, member)
        self._member, self._life = member, member.life

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and self._member.life == self._life:
            self._member.broken(error)


class Member:
    """`number` is its broker id. `trusted_shift_ms`: by how much its clock is ahead of the world's,
    as far as a process may believe it.
    """

    def __init__(self, realm: Realm, number: int, settings: dict[str, object]) -> None:
        self.realm, self.world, self.number = realm, realm.world, number
        self.name = f"b{number}"
        self.address, self.ha_address = f"10.0.0.{number}:10911", f"10.0.0.{number}:10912"
        self.folder = realm.medium.root / self.name
        self.config = BrokerConfig.model_validate(
            {
                **settings,
                "listen": self.address,
                "ha_listen": self.ha_address,
                "store_dir": self.folder,
            }
        )
        self.life, self.up, self.paused = 0, False, False
        self.wall_shift_ms = self.trusted_shift_ms = 0
        self._boots = 0
        self.durable = DurableHistory()
        self.links: Links | None = None
        self.process: BrokerProcess | None = None
        self.loop = MemberLoop(self)

    @property
    def wall_ms(self) -> int:
        return self.world.wall_ms + self.wall_shift_ms

    @property
    def serving(self) -> BrokerProcess:
        assert self.process is not None, f"{self.name} is down"
        return self.process

    @property
    def _durable_end(self) -> int:
        return self.serving.store.durable_offset

    @property
    def clean(self) -> bool:
        return self.process is not None and self.process.replica.clean()

    @property
    def leads(self) -> bool:
        """It takes itself for the master."""
        return self.process is not None and self.process.roles.serving

    @property
    def epoch(self) -> int:
        """Of the mastership that it knows."""
        core = None if self.process is None else self.process.replica.core
        return 0 if core is None else core.master_epoch

    # -- life

    def start(self) -> None:
        """A new process in the same folder."""
        self.life += 1
        self.up, self.paused = True, False
        self.trusted_shift_ms = self.wall_shift_ms
        self.loop = MemberLoop(self)
        self.loop.within(self._begin)
        for period_ms, work in (
            (BEAT_MS, lambda: self.realm.control.beat(self)),
            (TELL_EVERY_MS, lambda: self.realm.control.asked(self)),
            (SAMPLE_MS, lambda: self.durable.note(self.world.now_ms, self._durable_end)),
        ):
            self._every(period_ms, work)

    def _begin(self) -> None:
        self.process = broker_of(self, f"{self.name}-{self._boots}")
        self.realm.promises.begins(self)
        begin(self.process, self)
        self.world.count(f"start.{self.process.replica.boot.reason}")
        self.realm.control.registered(self)

    def _every(self, period_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self.later(period_ms, run)

        self.later(0, run)

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        """A timer of this life."""
        wake(self.world, self, delay_ms, lambda: self.loop.within(call))

    def kill(self, *, silent: bool = False) -> None:
        """What it wrote is there, what it held in memory is gone."""
        self.up = False
        process, self.process, self.links = self.serving, None, None
        self.realm.network.node_died(self, silent=silent)
        files, process.service.timers._files = process.service.timers._files, None
        if files is not None:
            files.close()
        process.store.close(clean=False)

    def lose_power(self) -> None:
        self.kill(silent=True)
        self._boots += 1
        lost = self.realm.medium.lose_power(self.folder, self.world.chance)
        self.world.count("power.bytes_lost", lost)

    def end(self) -> None:
        if self.up:
            self.kill()

    def part_ended(self, part: asyncio.Future[None]) -> None:
        """As `BrokerProcess.run_until`: the process ends, and its supervisor starts it anew."""
        error = None if part.cancelled() else part.exception()
        if error is None:
            return
        if not isinstance(error, LogError):
            self.broken(error)
        self.world.count("process.ended")
        self.world.note(f"{self.name} ends: {error}")
        life = self.life

        def end() -> None:
            if self.up and self.life == life:
                self.kill()
                self.world.after(RESTARTED_MS, lambda: self.up or self.start())

        self.world.after(1, end)

    def broken(self, error: BaseException) -> None:
        """An error of the product's own."""
        raise InvariantBroken(f"{self.name}: {type(error).__name__}: {error}") from error

    # -- what comes from outside

    def notice(self, notice: RoleNotice) -> None:
        if self.process is not None:
            self.loop.within(partial(self.process.replica.notice, notice))

    def accept(self, end: End) -> bool:
        asked: list[Asked] = []

        def take(_wire: Wire, request: RemotingCommand) -> None:
            self.loop.within(lambda: self._serve(asked[0], request))

        def closed(_wire: Wire) -> None:
            if self.process is not None:
                self.loop.within(lambda: self.serving.service.connection_closed(asked[0]))  # type: ignore[arg-type]

        wire = Wire(self.world, end, take, closed)
        asked.append(Asked(wire, self.realm.peer_of(end.peer.owner)))
        return True

    def _serve(self, asked: Asked, request: RemotingCommand) -> None:
        answer = self.serving.opening.dispatcher(asked, request)  # type: ignore[arg-type]
        answered(self.loop, asked, request, answer, self.broken)

    def accept_ha(self, end: End) -> bool:
        return self.links is not None and self.loop.within(partial(self.links.accept, end))
