"""The data of one broker set: what its master writes, what the others copy, and what counts as
acknowledged.

Responsible for: the promises of a master of design S1, S3 and S4, as scripted as they can be:
written bytes are acknowledged when every member of the confirmed set and of all unresolved
proposals has them, on a link of this mastership. Refuses to know how a master came to be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from processors.fold.rules import SUPPORTED_RULES
from tests.simulation.control.history import end_of, grown, shared, up_to
from tests.simulation.control.intact import Intact

if TYPE_CHECKING:
    from processors.fold.state import BrokerSet
    from tests.simulation.control.brokers import BrokerNode
    from tests.simulation.control.realm import Realm

PUMP_MS = (60, 160)
WRITE_MAX = 5
SHRINK_MS = 1_000


class Mastership:
    """One epoch of one master, as it knows it."""

    def __init__(self, epoch: int, members: tuple[int, ...], set_epoch: int, now_ms: int) -> None:
        self.epoch, self.members, self.set_epoch = epoch, members, set_epoch
        self.proposed: list[tuple[int, tuple[int, ...]]] = []
        self.open: tuple[int, tuple[int, ...]] | None = None
        self.acked: dict[int, tuple[int, int]] = {}
        self.heard_ms = dict.fromkeys(members, now_ms)
        self.confirmed = 0

    def union(self) -> set[int]:
        """Everybody whose acknowledgement is needed."""
        return set(self.members).union(*(members for _, members in self.proposed))

    def learn(self, members: tuple[int, ...], set_epoch: int, now_ms: int) -> None:
        """A newer set: proposals based on an older one are resolved."""
        if set_epoch > self.set_epoch:
            self.members, self.set_epoch = members, set_epoch
            self.proposed = [(base, wanted) for base, wanted in self.proposed if base >= set_epoch]
            for member in members:
                self.heard_ms.setdefault(member, now_ms)


class ReplicaSet:
    """All brokers of one set. `intact`: what clients were told is safe, and who has it."""

    def __init__(self, realm: Realm, name: str, java: bool) -> None:
        self.realm, self.world, self.name, self.java = realm, realm.world, name, java
        self.brokers: list[BrokerNode] = []
        self.intact = Intact(realm.world)
        self.retiring = False
        self.world.after(self.world.between(*PUMP_MS), self._pump)

    @property
    def minimum(self) -> int:
        """With how few members its masters acknowledge."""
        return min(2, len(self.brokers))

    def _pump(self) -> None:
        for broker in self.brokers:
            if broker.up and not broker.paused and broker.mastership is not None:
                self._lead(broker, broker.mastership)
        self.world.after(self.world.between(*PUMP_MS), self._pump)

    def _lead(self, master: BrokerNode, mastership: Mastership) -> None:
        assert master.broker_id is not None
        if self._is_enough(mastership):
            master.history = grown(
                master.history, mastership.epoch, self.world.between(1, WRITE_MAX)
            )
        end, now_ms = end_of(master.history), self.world.now_ms
        mastership.acked[master.broker_id] = (master.life, end)
        mastership.heard_ms[master.broker_id] = now_ms
        for slave in self.brokers:
            if (
                slave is not master
                and slave.broker_id is not None
                and self._copies(slave, master, mastership)
            ):
                mastership.acked[slave.broker_id] = (slave.life, end_of(slave.history))
                if end_of(slave.history) >= mastership.confirmed:
                    mastership.heard_ms[slave.broker_id] = now_ms
        if not self.java and not self._is_enough(mastership):
            return  # Java's confirm alone what was written before the others left.
        confirmed = min(self._acked_by(mastership, member) for member in mastership.union())
        if confirmed > mastership.confirmed:
            mastership.confirmed = master.confirmed = confirmed
            self._acknowledge(master, mastership)

    def _copies(self, slave: BrokerNode, master: BrokerNode, mastership: Mastership) -> bool:
        """Only who follows this very mastership acknowledges it (S8)."""
        follows = slave.follows == (mastership.epoch, master.broker_id)
        if not (slave.up and not slave.paused and follows) or self.realm.lines.is_apart(
            slave.name, master.name
        ):
            return False
        begin = shared(slave.history, master.history)
        end = end_of(master.history)
        slave.history = up_to(
            master.history, end if self.world.one_in(2) else self.world.between(begin, end)
        )
        slave.confirmed = min(mastership.confirmed, end_of(slave.history))
        slave.copied()
        return True

    def _acked_by(self, mastership: Mastership, member: int) -> int:
        life, end = mastership.acked.get(member, (-1, 0))
        return (
            end if any(one.broker_id == member and one.life == life for one in self.brokers) else 0
        )

    def _acknowledge(self, master: BrokerNode, mastership: Mastership) -> None:
        self.world.count("data.acknowledged")
        if not self.realm.promises.acknowledging(self, master, mastership):
            return
        # who is only proposed is waited for by nobody later
        confirmed, members = mastership.confirmed, mastership.members
        holders = [
            one
            for one in self.brokers
            if one.broker_id in members and self._acked_by(mastership, one.broker_id) >= confirmed
        ]
        self.intact.promised(master.history, mastership.epoch, confirmed, holders)

    def _is_enough(self, mastership: Mastership) -> bool:
        return len(mastership.members) >= self.minimum

    def next_members(self, master: BrokerNode, mastership: Mastership) -> tuple[int, ...] | None:
        """The set this master would have instead of the one it knows; None when it is content."""
        now_ms, members = self.world.now_ms, mastership.members
        begin = next(
            (end for epoch, end in reversed(master.history) if epoch < mastership.epoch), 0
        )
        stay = [
            m
            for m in members
            if m == master.broker_id or now_ms - mastership.heard_ms.get(m, 0) <= SHRINK_MS
        ]
        join = [
            slave.broker_id
            for slave in self.brokers
            if slave.broker_id is not None
            and slave.broker_id not in members
            and slave.follows == (mastership.epoch, master.broker_id)
            and self._acked_by(mastership, slave.broker_id) >= max(mastership.confirmed, begin)
            and now_ms - mastership.heard_ms.get(slave.broker_id, -SHRINK_MS) < SHRINK_MS
        ]
        wanted = tuple(sorted({*stay, *join}))
        for member in () if self.java else members:  # ours never leave a set that is at its minimum
            if len(wanted) < self.minimum and member not in wanted:
                wanted = tuple(sorted({*wanted, member}))
        return None if wanted == members else wanted

    def is_whole(self) -> bool:
        """Every replica up, trusted and a member as the log knows it: one disk may be lost."""
        known = self.realm.newest_state().sets.get(self.name)
        return known is not None and all(
            one.up
            and one.broker_id in known.sync_state_set
            and (
                self.java
                or getattr(known.replica(one.broker_id or 0), "incarnation", None)
                == one.incarnation
            )
            for one in self.brokers
        )

    def may_lose(self, broker: BrokerNode) -> bool:
        """Whether a disk may go just now: under rules 3 as README has it, before only where nobody
        needs to be remembered.
        """
        known = self.realm.newest_state()
        if known.rules_version < max(SUPPORTED_RULES):
            return self.is_whole()
        if (members := known.sets.get(self.name)) is None:
            return self.intact.holds_all(broker, self.brokers)
        self.intact.copied(one for one in self.brokers if self._vouches(one, members))
        # Java's brokers tell no minimum: who was left out of their set is remembered by nobody.
        return self.intact.holds_all(
            broker,
            [
                one
                for one in self.brokers
                if not self.java or one.broker_id in members.sync_state_set
            ],
        )

    def _vouches(self, broker: BrokerNode, known: BrokerSet) -> bool:
        """A member that lost nothing since it became one."""
        replica = known.replica(broker.broker_id or 0)
        if broker.unclean or replica is None or broker.broker_id not in known.sync_state_set:
            return False
        return self.java or replica.incarnation == broker.incarnation

    def forget(self) -> None:
        """All disks of the set are new: nothing is promised about what they held."""
        self.intact = Intact(self.world)
        self.retiring = False
