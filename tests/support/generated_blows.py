"""What befalls the broker sets of a generated history, each blow with its repair.

Responsible for the mix and for what is known of each blow beforehand (`Blow`), which tests compare
with what the lakehouse finds. Refuses to know how a set comes together again (`generated_set`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from events import broker_events as said
from events.outcomes import Outcome
from tests.support.generated_leaders import Leaders
from tests.support.generated_replica import BEAT_MS, GeneratedReplica
from tests.support.generated_set import TIMEOUT_MS, GeneratedSet, Steps

TAIL_BYTES_MAX, POWER_LOSS_BYTES_MAX = 4_000, 60_000


@dataclass(frozen=True, slots=True)
class Blow:
    """A blow that took a set its master, and the election that answered it."""

    broker_name: str
    kind: str
    """killed, silent, handed over or power."""
    began_ms: int
    election_offset: int
    old_master: int
    new_master: int
    tail_bytes: int
    """Bytes that only the old master had."""


class SetLife(GeneratedSet):
    """A set that is dealt blow after blow."""

    def __init__(self, leaders: Leaders, name: str, chance: Random, pause_ms: int) -> None:
        super().__init__(leaders, name, chance)
        self.blows: list[Blow] = []
        self._pause_ms = pause_ms

    def live(self) -> Steps:
        """All its life; it is left in peace for `pause_ms` on average."""
        yield from self.formed()
        while True:
            yield int(self.chance.expovariate(1 / self._pause_ms)) + 1
            [blow] = self.chance.choices(list(BLOWS), list(BLOWS.values()))
            yield from blow(self)

    def _slave_lags(self) -> Steps:
        slave = self.chance.choice(self.slaves())
        self.write()
        self.master.tell(said.SlaveFellBehind, slave.broker_id, self.chance.randrange(1, 1 << 22))
        slave.linked = False
        self.leaves(slave)
        yield self.chance.randrange(300, 20_000)
        yield from self.whole_again()

    def _slave_restarts(self) -> Steps:
        slave = self.chance.choice(self.slaves())
        slave.tell(said.BrokerStopped, "asked to stop")
        slave.dies(self.liveness)
        self.unlink(slave, "connection closed")
        self.leaves(slave)
        yield from self._comes_back(slave)
        yield from self.whole_again()

    def _master_killed(self) -> Steps:
        yield from self._blow("killed", self._kill)
        yield from self._comes_back_and_follows()

    def _master_silent(self) -> Steps:
        yield from self._blow("silent", self._fall_silent)
        yield self.chance.randrange(500, 30_000)
        for one in self.replicas.values():
            one.runs = True
        yield from self.whole_again()

    def _hiccup(self) -> Steps:
        """A replica is silent for a while, and back before anybody calls it gone."""
        self.beats()
        one = self.chance.choice(list(self.replicas.values()))
        yield self.chance.randrange(1_000, TIMEOUT_MS - BEAT_MS - 1)
        one.away = True
        self.beats()

    def _master_alone_killed(self) -> Steps:
        self.write()
        for slave in self.slaves():
            self.unlink(slave, "it does not keep up")
            self.leaves(slave)
        yield self.chance.randrange(500, 5_000)
        self.write()
        self.beats()
        began_ms, old = self.leaders.now_ms, self.master
        yield from self._kill(old)
        [refused] = self.elections(began_ms)
        assert not refused.accepted
        yield from self._comes_back(old)
        self.beats()
        [outcome] = self.elections(began_ms)
        yield from self._answered("killed", began_ms, old, outcome, 0)
        yield from self.whole_again()

    def _hands_over(self) -> Steps:
        target, old, began_ms = self.chance.choice(self.slaves()), self.master, self.leaders.now_ms
        self.write()
        self.beats()
        old.tell(said.HandOverBegun, target.broker_id, self.now.master_epoch, 3)
        epoch, outcome = self.now.master_epoch, self.ask_election(target.broker_id, designate=True)
        yield from self._answered("handed over", began_ms, old, outcome, 0)
        old.tell(
            said.HandOverCompleted,
            target.broker_id,
            epoch,
            self.now.master_epoch,
            self.leaders.now_ms - began_ms,
        )
        yield from self.whole_again()

    def _power_lost(self) -> Steps:
        """All lose what their disks did not have yet."""
        self.write()
        began_ms, old = self.leaders.now_ms, self.master
        for one in self.replicas.values():
            one.dies(self.liveness)
            one.cut(max(0, one.end - self.chance.randrange(POWER_LOSS_BYTES_MAX)))
        for one in self.replicas.values():
            yield from self._comes_back(one, clean=False)
        yield 10
        self.beats()
        [outcome] = self.elections(began_ms)
        self.confirmed = min(self.confirmed, self.master.end)
        yield from self._answered("power", began_ms, old, outcome, 0)
        yield from self.whole_again()

    def _old_proposal(self) -> Steps:
        yield self.chance.randrange(5, 50)
        self.beats()
        if self.chance.random() < 0.5:
            outsider = self.chance.choice(self.slaves()).broker_id
            members = tuple(n for n in self.now.sync_state_set if n != outsider)
            assert not self.alter(members, self.now.sync_state_set_epoch - 1).accepted
        else:
            assert not self.ask_election(self.chance.choice(self.slaves()).broker_id).accepted

    def _said_twice(self) -> Steps:
        yield 1
        self.leaders.again()

    # -- parts of blows ----------------------------------------------------------------------------

    def _blow(self, kind: str, fall: Callable[[GeneratedReplica], Steps]) -> Steps:
        self.write()
        self.beats()
        old, began_ms = self.master, self.leaders.now_ms
        tail = self.chance.choice((0, self.chance.randrange(1, TAIL_BYTES_MAX)))
        old.end += tail
        yield from fall(old)
        [outcome] = self.elections(self.leaders.now_ms - 1)
        yield from self._answered(kind, began_ms, old, outcome, tail)

    def _kill(self, old: GeneratedReplica) -> Steps:
        old.dies(self.liveness)
        for one in self.slaves():
            self.unlink(one, "connection closed")
        yield self.chance.randrange(2, 30)
        self.beats()

    def _fall_silent(self, old: GeneratedReplica) -> Steps:
        old.runs, old.away = False, True
        pulse = self.liveness.pulse(("regent", self.name, old.broker_id))
        assert pulse is not None
        yield max(
            1, pulse.heard_ms + TIMEOUT_MS + self.chance.randrange(1, 500) - self.leaders.now_ms
        )
        for one in self.slaves():
            self.unlink(one, "nothing heard")
        self.beats()

    def _answered(
        self, kind: str, began_ms: int, old: GeneratedReplica, outcome: Outcome, tail: int
    ) -> Steps:
        assert outcome.accepted, outcome
        new = self.master.broker_id
        self.blows.append(
            Blow(self.name, kind, began_ms, outcome.command_offset, old.broker_id, new, tail)
        )
        yield from self.reign(began_ms - self.chance.randrange(20))

    def _comes_back(self, one: GeneratedReplica, *, clean: bool = True) -> Steps:
        yield self.chance.randrange(800, 40_000)
        one.start()
        one.tell(said.BrokerStarted, clean, one.end, 0)
        one.tell(said.StoreRecovered, one.end, 0, not clean)
        self.register(one, clean=clean)
        self.beats()

    def _comes_back_and_follows(self) -> Steps:
        for one in self.replicas.values():
            if not one.runs:
                yield from self._comes_back(one)
        yield from self.whole_again()


BLOWS: Mapping[Callable[[SetLife], Steps], int] = {
    SetLife._slave_lags: 30,
    SetLife._slave_restarts: 20,
    SetLife._master_killed: 12,
    SetLife._master_silent: 8,
    SetLife._hands_over: 6,
    SetLife._hiccup: 10,
    SetLife._old_proposal: 10,
    SetLife._said_twice: 4,
    SetLife._master_alone_killed: 4,
    SetLife._power_lost: 1,
}
"""How often each comes, against the others."""
