"""What goes wrong, when, and how much of it at once.

Responsible for: the fault budget, which is README's sentence. Everything here is something the
product promises to survive, so that each failure is a bug: any number of kills, pauses, cuts and
stalls. What takes disks and power is in accidents.py.
Refuses to know: what the nodes do about it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation import disk_faults, strays
from tests.simulation.accidents import Accidents
from tests.simulation.forgery import forged
from tests.simulation.ghost import Ghosts
from tests.simulation.lasting import LastingCuts
from tests.simulation.log_loss import LogLoss
from tests.simulation.mixes import Mix, mix_of
from tests.simulation.odd_requests import Operator

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode
    from tests.simulation.world import World

DOWN_MS = (30, 3_000)
PAUSE_MS = (100, 7_000)
CUT_MS = (100, 6_000)
STALL_MS = (100, 5_000)
OUTCOMES_FIRST_MS = (0, 90)
CLOCK_JUMP_MS = 3_600_000
UNSEEN_MS = (11_000, 15_000)
INSIDE_EFFECTS_MAX = 40
DIRECTED_ONLY = ("lasting_cut", "log_tail_lost")
CLEANED_SEEN_MS = (1_000, 7_000, 12_000)


class Faults:
    """Injects faults until `stop()`, which comes at `ends_ms`; then everything is put right. None
    while it `is_calm`.
    """

    def __init__(self, cluster: Cluster, mix: Mix | None = None, ends_ms: int = 0) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.mix = mix or mix_of(cluster.world.seed)
        self.operator = Operator(cluster)
        self.ghosts = Ghosts(cluster)
        self.operator.stopped = self.ghosts.stopped = not self.mix.odd
        self.active, self.is_calm, self.ends_ms = True, False, ends_ms
        self._unseen = False
        self.accidents, self._lasting = Accidents(self), LastingCuts(self)
        self.kinds = dict(self._all())
        weights = self.mix.weights or {
            name: self.world.between(0, 3) for name in self.kinds if name not in DIRECTED_ONLY
        }
        self._drawn = [name for name in self.kinds for _ in range(weights.get(name, 0))] or list(
            self.kinds
        )
        drawn = self.world.chance.choice([0, 0, 20, 60])
        cluster.journal.stall_one_in = (
            drawn if self.mix.stall_one_in is None else self.mix.stall_one_in
        )
        self._next()

    def _all(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("kill_broker", self._kill_broker),
            ("kill_master", self._kill_master),
            ("stop_in_order", self._stop_in_order),
            ("kill_controller", self._kill_controller),
            ("kill_leader", self._kill_leader),
            ("kill_both", self._kill_both),
            ("pause_broker", lambda: self._pause(self._broker())),
            (
                "pause_controller",
                lambda: self._pause(self.world.chance.choice(self.cluster.controllers)),
            ),
            ("cut", self._cut),
            ("isolate", self._isolate),
            ("journal_stall", self._stall),
            (
                "clock_jump",
                lambda: self._clock_jump(
                    "clock_jump", self.world.chance.choice(self.cluster.controllers)
                ),
            ),
            ("broker_clock_jump", lambda: self._clock_jump("broker_clock_jump", self._broker())),
            ("designate", self._designate),
            ("hand_over", self._hand_over),
            ("suspect", self._suspect),
            ("kill_inside", self._kill_inside),
            ("disk_full", lambda: self._disk("disk_full", disk_faults.fill)),
            ("disk_crowded", lambda: self._disk("disk_crowded", disk_faults.crowd)),
            ("slow_disk", lambda: self._disk("slow_disk", disk_faults.slow_down)),
            ("append_hangs", lambda: disk_faults.hang(self.world, self._master())),
            ("slow_links", self._slow_links),
            ("restart_master", lambda: self._restart(self._master(), "restart_master")),
            ("restart_slave", self._restart_slave),
            ("poll", self._poll),
            ("lose_sight", self._lose_sight),
            ("wrong_snapshot", self._wrong_snapshot),
            ("lose_snapshots", self._lose_snapshots),
            ("unheard", self._unheard),
            ("lasting_cut", self._lasting.strike),
            ("log_tail_lost", LogLoss(self).strike),
            *self.accidents.kinds(),
            *((kind, partial(self.cluster.strays.let_loose, kind)) for kind in strays.KINDS),
        ]

    def stop(self) -> None:
        """Heal: everything up, connected, unpaused; odd requests end."""
        self.active = False
        self.operator.stopped = self.ghosts.stopped = True
        self.cluster.retains = False
        self.cluster.network.heal()
        self.cluster.strays.end()
        self.cluster.journal.stalled = self.cluster.journal.outcomes_stalled = False
        self.cluster.journal.stall_one_in = 0
        for delay_ms in CLEANED_SEEN_MS:  # a command of before may land late
            self.world.after(delay_ms, self.accidents.empty_the_cleaned)
        for node in (*self.cluster.controllers, *self.cluster.brokers):
            node.paused = False
            if not node.up:
                node.start()
        for broker in self.cluster.brokers:
            broker.disk.errors_due = broker.disk.slow_ms = broker.disk.hang_ms = 0
            broker.disk.room = broker.disk.power_in = None
            broker.disk.used_percent = 0.0
            if broker.shell is not None:
                broker.shell.crash_after = None

    def _next(self) -> None:
        if self.active:
            self.world.after(self.world.between(*self.mix.every_ms), self._strike)

    def _strike(self) -> None:
        if self.active and not self.is_calm:
            name = self.world.chance.choice(self._drawn)
            self.world.note(f"-- fault {name}")
            self.kinds[name]()
        self._next()

    def _did(self, name: str) -> None:
        """A fault that was really applied, not only drawn."""
        self.world.count(f"fault.{name}")

    # -- whom --------------------------------------------------------------------------------------

    def _broker(self) -> BrokerNode:
        return self.world.chance.choice(self.cluster.brokers)

    def _master(self) -> BrokerNode:
        for node in self.cluster.brokers:
            if node.core is not None and node.core.role.value == "MASTER":
                return node
        return self._broker()

    def _leader(self) -> ControllerNode:
        for node in self.cluster.controllers:
            if node.core is not None and node.core.is_active:
                return node
        return self.world.chance.choice(self.cluster.controllers)

    # -- what --------------------------------------------------------------------------------------

    def restart_later(self, node: BrokerNode | ControllerNode) -> None:
        """Its supervisor starts it again."""

        def restart() -> None:
            if not node.up:
                node.start()

        self.world.after(self.world.chance.randint(*DOWN_MS), restart)

    def _kill(self, node: BrokerNode | ControllerNode, name: str) -> None:
        if node.up:
            self._did(name)
            self.world.note(f"   kill {node.name}")
            node.stop()
            self.restart_later(node)

    def _kill_broker(self) -> None:
        self._kill(self._broker(), "kill_broker")

    def _kill_master(self) -> None:
        self._kill(self._master(), "kill_master")

    def _kill_controller(self) -> None:
        self._kill(self.world.chance.choice(self.cluster.controllers), "kill_controller")

    def _kill_leader(self) -> None:
        self._kill(self._leader(), "kill_leader")

    def _kill_both(self) -> None:
        master, leader = self._master(), self._leader()
        self._kill(master, "kill_both")
        self._kill(leader, "kill_both")

    def _stop_in_order(self) -> None:
        """A master hands over first, if somebody can take over."""
        node = self._broker() if self.world.one_in(2) else self._master()
        if node.up and node.disk.power_in is None:
            self.world.note(f"   {node.name} shall stop")
            node.service.hand_over.before_stop(lambda: self._stop(node))

    def _stop(self, node: BrokerNode) -> None:
        """Half of them lose power then, which must not cost a bit."""
        if not node.up or node.disk.power_in is not None:
            return
        self.world.note(f"   {node.name} stops")
        self._did("stop_in_order")
        node.stop_in_order()
        if self.world.one_in(2):
            trusted = not node.disk.distrusted
            node.disk.lose_power(self.world)
            node.disk.distrusted = not trusted
        self.restart_later(node)

    def _unheard(self) -> None:
        """A replica that its master hears and the controllers do not, for longer than any
        patience.
        """
        node = self._broker()
        self._did("unheard")
        self.world.note(f"   {node.name} is cut off from the controllers")
        self.cut_off(node.name, [one.name for one in self.cluster.controllers], UNSEEN_MS)

    def _pause(self, node: BrokerNode | ControllerNode) -> None:
        if not node.up or node.paused:
            return
        self.world.note(f"   pause {node.name}")
        self._did("pause_broker" if node in self.cluster.brokers else "pause_controller")
        node.paused = True
        life = node.life

        def go_on() -> None:
            if node.life == life:
                node.paused = False

        self.world.after(self.world.chance.randint(*PAUSE_MS), go_on)

    def _cut(self) -> None:
        nodes = [*self.cluster.controllers, *self.cluster.brokers]
        one, other = self.world.chance.sample(nodes, 2)
        both = self.world.chance.randrange(2) == 0
        self._did("cut")
        self.world.note(f"   cut {one.name} {'<->' if both else '->'} {other.name}")
        pairs = [(one.name, other.name), (other.name, one.name)]
        self._cut_for_a_while(pairs if both else pairs[:1], CUT_MS)

    def _cut_for_a_while(self, pairs: list[tuple[str, str]], for_ms: tuple[int, int]) -> None:
        self.world.after(self.world.between(*for_ms), self.cluster.network.cut(pairs))

    def cut_off(self, lonely: str, others: list[str], for_ms: tuple[int, int]) -> None:
        """From these, both ways, for so long."""
        self._cut_for_a_while(
            [pair for other in others for pair in ((lonely, other), (other, lonely))], for_ms
        )

    def _isolate(self) -> None:
        nodes = [*self.cluster.controllers, *self.cluster.brokers]
        lonely = self.world.chance.choice(nodes)
        self.world.note(f"   isolate {lonely.name}")
        self._did("isolate")
        self.cut_off(lonely.name, [node.name for node in nodes if node is not lonely], CUT_MS)

    def _stall(self) -> None:
        """Commands are decided for a moment longer than outcomes can be written."""
        self._did("journal_stall")
        journal = self.cluster.journal
        journal.outcomes_stalled = True

        def go_on() -> None:
            journal.stalled = journal.outcomes_stalled = False

        def commands_too() -> None:
            journal.stalled = journal.outcomes_stalled

        self.world.after(self.world.between(*OUTCOMES_FIRST_MS), commands_too)
        self.world.after(self.world.chance.randint(*STALL_MS), go_on)

    def _clock_jump(self, name: str, node: BrokerNode | ControllerNode) -> None:
        """Its own only: no clock knows of another."""
        self._did(name)
        node.wall_shift_ms += self.world.chance.choice([-CLOCK_JUMP_MS, CLOCK_JUMP_MS])

    def _wrong_snapshot(self) -> None:
        """The newest snapshot of a controller says something else than what was folded, and it
        starts anew.
        """
        node = self.world.chance.choice(self.cluster.controllers)
        newest = max(node.snapshots, default=None)
        made = (
            None
            if newest is None
            else forged(node.snapshots[newest], self.cluster.set_name, self.world)
        )
        if newest is not None and made is not None:
            self._did("wrong_snapshot")
            node.snapshots[newest] = made
            self._kill(node, "kill_controller")

    def _lose_snapshots(self) -> None:
        """A controller starts on an empty disk."""
        node = self.world.chance.choice(self.cluster.controllers)
        if node.snapshots:
            self._did("lose_snapshots")
            node.snapshots.clear()
            self._kill(node, "kill_controller")

    def _designate(self) -> None:
        node = self._broker()
        if node.broker_id is not None:
            self._did("designate")
            self.operator.designate(node.broker_id)

    def _hand_over(self) -> None:
        """An operator wants another master, this one or whoever can; now and then nobody of the
        kind is there.
        """
        node = self._master()
        if node.up and not node.paused:
            self._did("hand_over")
            node.service.hand_over.wish(self._broker().broker_id if self.world.one_in(2) else None)

    def _suspect(self) -> None:
        if self.operator.suspect():
            self._did("suspect")

    def _kill_inside(self) -> None:
        """The next steps of a replica end in the middle; how far it gets is chance."""
        node = self._broker() if self.world.one_in(2) else self._master()
        if node.shell is not None and node.shell.crash_after is None:
            node.shell.crash_after = self.world.between(0, INSIDE_EFFECTS_MAX)

    def _disk(self, name: str, do: Callable[[World, BrokerNode], None]) -> None:
        node = self._master() if self.world.one_in(2) else self._broker()
        self.world.note(f"   {name} of {node.name}")
        self._did(name)
        do(self.world, node)

    def _slow_links(self) -> None:
        node = self._master()
        if node.shell is not None:
            self._did("slow_links")
            node.shell.hold_links(self.world.between(*PAUSE_MS) // 4)

    def _restart(self, node: BrokerNode, name: str) -> None:
        """So fast that its return is noticed before its end."""
        if node.up:
            self._did(name)
            node.stop(silent=True)
            node.start()

    def _restart_slave(self) -> None:
        """What was heard of its former life may still count somewhere."""
        node = self._broker()
        if node is not self._master():
            self._restart(node, "restart_slave")

    def _poll(self) -> None:
        """Every replica asks for the set just now, whatever it waits for."""
        self._did("poll")
        for node in self.cluster.brokers:
            if node.up and not node.paused:
                node.membership.ask(elect=False)

    def _lose_sight(self) -> None:
        """No controller hears the master any more, and all start anew: whoever leads never heard of
        it at all.
        """
        master = self._master()
        if master.up and not self._unseen:
            self._unseen = True
            self._did("lose_sight")
            self.cut_off(master.name, [node.name for node in self.cluster.controllers], UNSEEN_MS)
            for node in self.cluster.controllers:
                self._kill(node, "kill_controller")
