"""One broker set of a generated history: its messages, what its brokers ask of the controllers and
report.

Elections are called by the real triggers on the evidence of the real liveness; the rules decide
them. Refuses to know which blow comes next (`generated_blows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from events import broker_events as said
from events.commands import AlterSyncStateSet, ApplyBrokerId, ElectMaster, RegisterBroker
from events.outcomes import Outcome
from processors.controller.elections import Elections
from processors.fold.state import BrokerSet
from processors.liveness.replicas import Liveness
from processors.liveness.triggers import ElectionTriggers
from tests.support.generated_leaders import Leaders
from tests.support.generated_replica import REGENT, GeneratedReplica

MEMBERS = (1, 2, 3)
TIMEOUT_MS = 10_000
BYTES_PER_MS_MAX = 200
FIRST_GO_MS = 400
BROKER, OPERATOR = "broker_request", "operator_request"

Steps = Iterator[int]
"""What a set waits for before it goes on, ms."""


class GeneratedSet:
    """One set of three replicas of ours. Between blows all run and belong to the SyncStateSet."""

    def __init__(self, leaders: Leaders, name: str, chance: Random) -> None:
        self.name, self.leaders, self.chance = name, leaders, chance
        self.liveness = Liveness()
        self.replicas = {
            number: GeneratedReplica(leaders, name, number, chance) for number in MEMBERS
        }
        self.confirmed = 0
        """Offset up to which every member has the log."""
        self._triggers = ElectionTriggers()
        self._wrote_ms = leaders.now_ms
        self._rate = chance.randrange(1, BYTES_PER_MS_MAX)

    @property
    def now(self) -> BrokerSet:
        """The set as the controllers have it."""
        return self.leaders.set(self.name)

    @property
    def master(self) -> GeneratedReplica:
        """The recorded master; the first replica while there is none."""
        return self.replicas[self.now.master_broker_id or MEMBERS[0]]

    def slaves(self) -> list[GeneratedReplica]:
        """The others that run."""
        return [one for one in self.replicas.values() if one is not self.master and one.runs]

    def write(self) -> None:
        """Messages of the time since the last look: the master and who follows it have them."""
        elapsed_ms, self._wrote_ms = self.leaders.now_ms - self._wrote_ms, self.leaders.now_ms
        master, now = self.master, self.now
        if (
            not master.runs
            or now.master_broker_id is None
            or master.newest_epoch != now.master_epoch
        ):
            return
        master.end += elapsed_ms * self._rate
        for one in self.slaves():
            one.end = master.end if one.linked else one.end
        held = [one.end for one in self.replicas.values() if one.is_member(now)]
        self.confirmed = max(self.confirmed, min(held, default=0))

    def beats(self) -> None:
        """Every replica that runs is heard."""
        for one in self.replicas.values():
            if one.runs:
                one.beat(self.liveness, self.confirmed, TIMEOUT_MS, one.broker_id)

    # -- what is asked for ------------------------------------------------------------------------

    def register(self, one: GeneratedReplica, *, clean: bool = True) -> Outcome:
        """A start of a replica makes itself known."""
        own = (
            self.name,
            one.broker_id,
            one.address,
            one.ha_address,
            one.incarnation,
            clean,
            one.newest_epoch,
            one.end,
        )
        outcome = self.leaders.do(BROKER, lambda e: RegisterBroker(e, REGENT, *own), one.address)
        assert outcome.accepted, outcome
        return outcome

    def alter(self, members: tuple[int, ...], base: int | None = None) -> Outcome:
        """The master proposes a set; `base` is the set epoch that it knows, by default the present
        one.
        """
        now, master = self.now, self.master
        base = now.sync_state_set_epoch if base is None else base
        master.tell(said.SyncStateSetProposed, members, base, -1, -1)
        evidence = self.liveness.evidence(now, self.leaders.now_ms, master.broker_id)
        command = (self.name, master.broker_id, now.master_epoch, base, members, evidence)
        outcome = self.leaders.do(BROKER, lambda e: AlterSyncStateSet(e, *command), master.address)
        kind = said.SyncStateSetAccepted if outcome.accepted else said.SyncStateSetRefused
        master.tell(
            kind,
            members,
            base,
            self.now.sync_state_set_epoch if outcome.accepted else -1,
            outcome.code,
        )
        return outcome

    def ask_election(self, broker_id: int, *, designate: bool = False) -> Outcome:
        """A broker wants to lead, or an operator names who shall."""
        evidence = self.liveness.evidence(
            self.now, self.leaders.now_ms, None if designate else broker_id
        )
        wanted = (REGENT, self.name, broker_id, designate, None, None, evidence)
        cause = OPERATOR if designate else BROKER
        return self.leaders.do(
            cause, lambda e: ElectMaster(e, *wanted), self.replicas[broker_id].address
        )

    def elections(self, noticed_ms: int) -> list[Outcome]:
        """The elections that the triggers call now, decided; `noticed_ms` is when the loss was
        seen.
        """
        found = []
        for call in self._triggers.calls((self.now,), self.liveness, self.leaders.now_ms):
            outcome = self.leaders.do(
                call.cause,
                lambda e, c=call: Elections.command(c, e),
                stamps={"detected": noticed_ms},
            )
            self._triggers.settled(self.name, elected=outcome.accepted)
            found.append(outcome)
        return found

    # -- how it comes together --------------------------------------------------------------------

    def formed(self) -> Steps:
        """Ids, registrations, the first election, and all are in the set."""
        for one in self.replicas.values():
            yield self.chance.randrange(50, 400)
            one.tell(said.BrokerStarted, True, 0, 0)
            own = (REGENT, self.name, one.broker_id, f"{one.address};{self.name}")
            assert self.leaders.do(
                BROKER, lambda e, o=own: ApplyBrokerId(e, *o), one.address
            ).accepted
            one.tell(said.IdentityWritten, one.broker_id, False)
            self.register(one)
        self.beats()
        assert self.ask_election(MEMBERS[0]).accepted
        yield from self.reign(-1)
        yield from self.whole_again()

    def reign(self, last_store_ms: int) -> Steps:
        """The elected master takes its epoch up, its members follow; the first message of it is
        acknowledged.
        """
        master, epoch = self.master, self.now.master_epoch
        yield self.chance.randrange(4, 40)
        master.epochs[epoch] = master.end
        master.tell(said.EpochAppended, epoch, master.end, last_store_ms)
        master.tell(said.RoleChanged, "MASTER", epoch, master.broker_id, "notify")
        self._wrote_ms = self.leaders.now_ms
        for one in self.replicas.values():
            # The former master too, silent or dead: it follows anew when it is back.
            one.linked = False
        for one in self.slaves():
            if one.is_member(self.now):
                yield self.chance.randrange(2, 30)
                self.link(one)
        yield self.chance.randrange(2, FIRST_GO_MS)
        self.write()
        master.tell(said.FirstMessageAcknowledged, epoch, self.confirmed)
        master.tell(said.ConfirmCrossedEpoch, epoch, self.confirmed)

    def whole_again(self) -> Steps:
        """Each replica that runs links, catches up and is taken into the set."""
        for one in self.slaves():
            if not one.linked:
                self.write()
                self.link(one)
                yield self.chance.randrange(20, 3_000)
            self.write()
            self.master.tell(said.SlaveCaughtUp, one.broker_id, self.master.end)
            self.beats()
            if not one.is_member(self.now):
                assert self.alter(tuple(sorted({*self.now.sync_state_set, one.broker_id}))).accepted

    def link(self, one: GeneratedReplica) -> None:
        """A replica turns to the master of now: what that one does not have is cut."""
        master, epoch = self.master, self.now.master_epoch
        one.tell(said.RoleChanged, "SLAVE", epoch, master.broker_id, "notify")
        agreed = min(one.end, master.end, *_parted(one.epochs, master.epochs))
        if agreed < one.end:
            lost_from = one.end
            one.cut(agreed)
            one.tell(
                said.LogTruncated,
                lost_from,
                agreed,
                one.newest_epoch,
                "the master's log ends there",
            )
        one.tell(said.HandshakeResult, master.broker_id, agreed, True, "")
        one.tell(said.HaLinkUp, master.broker_id, "outbound")
        master.tell(said.HaLinkUp, one.broker_id, "inbound")
        if one.newest_epoch < epoch:
            one.tell(said.EpochAppended, epoch, master.epochs[epoch], -1)
        one.epochs, one.linked = dict(master.epochs), True
        one.end = max(one.end, agreed)

    def unlink(self, one: GeneratedReplica, reason: str) -> None:
        """The link between a slave and the master ends; whoever of both runs tells it."""
        if one.linked and one.runs:
            one.tell(said.HaLinkDown, self.master.broker_id, "outbound", reason)
        if one.linked and self.master.runs:
            self.master.tell(said.HaLinkDown, one.broker_id, "inbound", reason)
        one.linked = False

    def leaves(self, one: GeneratedReplica) -> None:
        """The master takes a slave out of the set."""
        self.write()
        self.beats()
        if one.is_member(self.now):
            assert self.alter(
                tuple(n for n in self.now.sync_state_set if n != one.broker_id)
            ).accepted


def _parted(mine: dict[int, int], others: dict[int, int]) -> list[int]:
    """Where the epochs begin that only one of both logs has: behind the lowest their bytes
    differ.
    """
    return [
        start
        for one, other in ((mine, others), (others, mine))
        for epoch, start in one.items()
        if epoch not in other
    ]
