"""What goes wrong, when, and how much of it at once.

Responsible for: the fault budget, which is README's sentence: any number of deaths, pauses, cuts
and stalls; under rules 3 disks and power at any time, as long as somebody else holds all that was
acknowledged, or the power of a whole set at once; under earlier rules one disk, and only while the
set is whole. Refuses to know: what the processes do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING

from processors.fold.rules import SUPPORTED_RULES
from tests.simulation.control import files
from tests.simulation.control.brokers import BrokerNode
from tests.simulation.control.lines import Process
from tests.simulation.control.operators import OperatorNode
from tests.simulation.control.topics import LOG
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.control.controllers import ControllerNode
    from tests.simulation.control.realm import Realm
    from tests.simulation.control.replicas import ReplicaSet

DOWN_MS = (30, 2_500)
PAUSE_MS = (100, 6_000)
CUT_MS = (100, 6_000)
LONG_CUT_MS = (5_000, 9_000)
LEADERLESS_MS = (100, 3_500)
LAGGING_MS = (1, 300)
EVERY_MS = (80, 1_200)
CLOCK_JUMP_MS = 3_600_000
ALONE_ONE_IN = 4
TROUBLE = (0, 60, 15)


@dataclass(frozen=True, slots=True)
class Mix:
    """Which faults, how often. `weights` empty: drawn by the seed. `odd_every_ms`: an operator's
    odd wish besides them.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    every_ms: tuple[int, int] = EVERY_MS
    trouble_one_in: int | None = None
    odd_every_ms: tuple[int, int] | None = None


class Faults:
    """Strikes until `stop()`; then everything is put right."""

    def __init__(self, realm: Realm, mix: Mix) -> None:
        self.realm, self.world, self.mix = realm, realm.world, mix
        self.operator = OperatorNode(realm)
        self.active = True
        self.kinds = {
            name.removeprefix("_do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }
        weights = mix.weights or {name: self.world.between(0, 3) for name in self.kinds}
        self._drawn = [name for name in self.kinds for _ in range(weights.get(name, 0))] or list(
            self.kinds
        )
        drawn = self.world.chance.choice(TROUBLE)
        # In turn, so that a world with a few of them has them all.
        self._damages = cycle(self.world.chance.sample(sorted(files.DAMAGES), len(files.DAMAGES)))
        realm.topics.trouble_one_in = drawn if mix.trouble_one_in is None else mix.trouble_one_in
        self._next()
        self._wish()

    def stop(self) -> None:
        """Everything up, connected, going on; nobody wishes anything odd."""
        self.active = False
        realm = self.realm
        realm.lines.heal()
        realm.topics.trouble_one_in = 0
        realm.topics.outcomes_leaderless = False
        realm.topics.have_leader()
        for node in (*realm.controllers, *realm.brokers):
            node.go_on()
            node.reads_from_ms = 0
            if node in realm.controllers and node.too_old:
                node.rules = SUPPORTED_RULES
            self._bring_back(node)

    def _next(self) -> None:
        if self.active:
            self.world.after(self.world.between(*self.mix.every_ms), self._strike)

    def _strike(self) -> None:
        if self.active:
            name = self.world.chance.choice(self._drawn)
            self.world.note(f"-- fault {name}")
            self.kinds[name]()
        self._next()

    def _wish(self) -> None:
        """Each kind of refusal has to be seen in every run, whatever the faults of its worlds
        are.
        """

        def wish() -> None:
            if self.active:
                self._do_odd()
                self._wish()

        if self.mix.odd_every_ms is not None:
            self.world.after(self.world.between(*self.mix.odd_every_ms), wish)

    def _did(self, name: str, text: str = "") -> None:
        self.world.count(f"fault.{name}")
        self.world.note(f"   {name} {text}")

    # -- whom --------------------------------------------------------------------------------------

    def _broker(self) -> BrokerNode:
        return self.world.chance.choice(self.realm.brokers)

    def _set(self) -> ReplicaSet:
        return self.world.chance.choice(self.realm.sets)

    def _master(self) -> BrokerNode:
        masters = [one for one in self.realm.brokers if one.mastership is not None]
        return self.world.chance.choice(masters) if masters else self._broker()

    def _controller(self) -> ControllerNode:
        return self.world.chance.choice(self.realm.controllers)

    def _leader(self) -> ControllerNode:
        leaders = [
            node for node in self.realm.controllers if node.core is not None and node.core.is_active
        ]
        return leaders[-1] if leaders else self._controller()

    def _kill(self, node: BrokerNode | ControllerNode, name: str) -> None:
        if node.up:
            self._did(name, node.name)
            node.stop()
            self._restart_later(node)

    def _restart_later(self, node: BrokerNode | ControllerNode) -> None:
        self.world.after(self.world.between(*DOWN_MS), lambda: self._bring_back(node))

    @staticmethod
    def _bring_back(node: BrokerNode | ControllerNode) -> None:
        if not node.up and not (isinstance(node, BrokerNode) and node.set.retiring):
            node.start()

    def _stand_still(self, node: Process, name: str) -> None:
        if not node.up or node.paused:
            return
        self._did(name, node.name)
        node.pause()
        life = node.life

        def wake() -> None:
            if node.up and node.life == life:
                node.go_on()

        self.world.after(self.world.between(*PAUSE_MS), wake)

    def _apart(
        self, one: str, others: list[str], for_ms: tuple[int, int] = CUT_MS, *, both: bool = True
    ) -> None:
        pairs = [(one, other) for other in others] + (
            [(other, one) for other in others] if both else []
        )
        self.world.after(self.world.between(*for_ms), self.realm.lines.cut(pairs))

    # -- processes ---------------------------------------------------------------------------------

    def _do_kill_broker(self) -> None:
        self._kill(self._broker(), "kill_broker")

    def _do_kill_master(self) -> None:
        self._kill(self._master(), "kill_master")

    def _do_kill_controller(self) -> None:
        self._kill(self._controller(), "kill_controller")

    def _do_kill_leader(self) -> None:
        self._kill(self._leader(), "kill_leader")

    def _do_kill_both(self) -> None:
        master, leader = self._master(), self._leader()
        self._kill(master, "kill_both")
        self._kill(leader, "kill_both")

    def _do_kill_all_controllers(self) -> None:
        for node in self.realm.controllers:
            self._kill(node, "kill_all_controllers")

    def _do_pause_broker(self) -> None:
        self._stand_still(self._broker(), "pause_broker")

    def _do_pause_controller(self) -> None:
        self._stand_still(self._controller(), "pause_controller")

    def _do_pause_leader(self) -> None:
        self._stand_still(self._leader(), "pause_leader")

    def _do_restart_master(self) -> None:
        """So fast that its return is noticed before its end."""
        node = self._master()
        if node.up:
            self._did("restart_master", node.name)
            node.stop()
            node.start()

    def _do_move_broker(self) -> None:
        """The same disk under another address."""
        node = self._broker()
        if node.up:
            self._did("move_broker", node.name)
            node.stop()
            node.port += 1
            self._restart_later(node)

    def _do_clock_jump(self) -> None:
        self._did("clock_jump")
        self._controller().wall_shift_ms += self.world.chance.choice(
            [-CLOCK_JUMP_MS, CLOCK_JUMP_MS]
        )

    # -- disks -------------------------------------------------------------------------------------

    def _do_lose_power(self) -> None:
        node = self._broker()
        if node.java and not self._notices_losses():
            return
        others_have_it = node.set.may_lose(node)
        # What a Java broker holds alone goes with it now and then, as it does with RocketMQ.
        if node.up and (others_have_it or (node.java and self.world.one_in(ALONE_ONE_IN))):
            self._did("lose_power", f"{node.name}{' (Java)' if node.java else ''}")
            self.world.count(f"power.{'java' if node.java else 'ours'}")
            node.lose_power()
            if not others_have_it:
                node.set.intact.chosen_by_an_operator(node, "java_alone")
            self._restart_later(node)

    def _do_blackout(self) -> None:
        """The power of a whole set goes in one moment: what the longest of them flushed is owed all
        the same.
        """
        replicas = self._set()
        if replicas.java or replicas.retiring or not self._notices_losses():
            return
        self._did("blackout", replicas.name)
        for node in replicas.brokers:
            node.lose_power()
            self._restart_later(node)

    def _notices_losses(self) -> bool:
        return self.realm.newest_state().rules_version == max(SUPPORTED_RULES)

    def _do_wipe_disk(self) -> None:
        node = self._broker()
        if node.up and node.set.may_lose(node):
            self._did("wipe_disk", node.name)
            node.stop()
            node.wipe()
            self._restart_later(node)

    def _do_bad_snapshot(self) -> None:
        """Torn, of another version, or the newest gone; found at the next start."""
        node = self._controller()
        if node.disk and node.up:
            kind = next(self._damages)
            newest = max(node.disk)
            self._did("bad_snapshot", f"{kind} of {node.name}")
            self.world.count(f"snapshot.{kind}")
            damaged = files.DAMAGES[kind](node.disk.pop(newest), self.world)
            if damaged is not None:
                node.disk[newest] = damaged
            self._kill(node, "kill_controller")

    # -- ways --------------------------------------------------------------------------------------

    def _do_cut(self) -> None:
        one, other = self.world.chance.sample([*self.realm.controllers, *self.realm.brokers], 2)
        both = self.world.one_in(2)
        self._did("cut", f"{one.name} {'<->' if both else '->'} {other.name}")
        self._apart(one.name, [other.name], both=both)

    def _do_cut_controllers(self) -> None:
        one, other = self.world.chance.sample(self.realm.controllers, 2)
        self._did("cut_controllers", f"{one.name} {other.name}")
        self._apart(one.name, [other.name], both=self.world.one_in(2))

    def _do_deaf_controller(self) -> None:
        """Answers are lost, questions arrive."""
        node = self._controller()
        self._did("deaf_controller", node.name)
        self._apart(node.name, [one.name for one in self.realm.brokers], both=False)

    def _do_isolate(self) -> None:
        nodes = [*self.realm.controllers, *self.realm.brokers]
        lonely = self.world.chance.choice(nodes)
        self._did("isolate", lonely.name)
        self._apart(lonely.name, [LOG, *(node.name for node in nodes if node is not lonely)])

    def _do_cut_from_log(self) -> None:
        node = self._controller()
        self._did("cut_from_log", node.name)
        self._apart(node.name, [LOG])

    def _do_cut_leader_from_log(self) -> None:
        node = self._leader()
        self._did("cut_leader_from_log", node.name)
        self._apart(node.name, [LOG])

    def _do_cut_leader_from_peers(self) -> None:
        node = self._leader()
        self._did("cut_leader_from_peers", node.name)
        self._apart(node.name, [one.name for one in self.realm.controllers if one is not node])

    def _do_cut_leader_from_brokers(self) -> None:
        """From most of them, and nothing else: half the world must not be deposed."""
        node = self._leader()
        self._did("cut_leader_from_brokers", node.name)
        lost = [one.name for one in self.realm.brokers if not self.world.one_in(4)]
        self._apart(node.name, lost, LONG_CUT_MS)

    def _do_log_leader(self) -> None:
        if not self.realm.topics.leaderless:
            self._did("log_leader")
            self.realm.topics.slow = True  # it is in trouble first: its followers lag
            self.world.after(self.world.between(*LAGGING_MS), self.realm.topics.lose_leader)
            self.world.after(
                LAGGING_MS[1] + self.world.between(*LEADERLESS_MS), self.realm.topics.have_leader
            )

    def _do_outcome_leader(self) -> None:
        """Commands are decided, and what became of them cannot be written for a while."""
        topics = self.realm.topics

        def have_one() -> None:
            topics.outcomes_leaderless = False

        if not topics.outcomes_leaderless:
            self._did("outcome_leader")
            topics.outcomes_leaderless = True
            self.world.after(self.world.between(*LEADERLESS_MS), have_one)

    # -- operators ---------------------------------------------------------------------------------

    def _do_designate(self) -> None:
        self._did("designate")
        self.operator.designate(self._broker())

    def _do_clean(self) -> None:
        node = self._broker()
        if node.up and node.set.may_lose(node):
            self._did("clean", node.name)
            node.stop()
            self.operator.clean(node)
            self._restart_later(node)

    def _do_retire(self) -> None:
        replicas = self._set()
        if not replicas.retiring:
            self._did("retire", replicas.name)
            self.operator.retire(replicas)

    def _do_odd(self) -> None:
        self._did("odd")
        self.operator.odd(self._set())

    def _do_transfer(self) -> None:
        self._did("transfer")
        self.operator.transfer()

    def _do_settings(self) -> None:
        self._did("settings")
        self.operator.change_settings()

    # -- software ----------------------------------------------------------------------------------

    def _do_upgrade(self) -> None:
        """One controller gets the newest release, and often the next one soon after; when all have
        it, its rules become active.
        """
        lacking = [node for node in self.realm.controllers if node.rules != SUPPORTED_RULES]
        if lacking:
            node = self.world.chance.choice(lacking)
            self._did("upgrade", node.name)
            node.rules = SUPPORTED_RULES
            if node.up:
                node.stop()
                node.start()
            if self.active and not self.world.one_in(4):
                self.world.after(self.world.between(*DOWN_MS), self._do_upgrade)
        if not lacking or self.world.one_in(2):  # too early, it must be refused
            self._did("activate")
            self.operator.activate(max(SUPPORTED_RULES))

    def _do_old_release(self) -> None:
        """Somebody starts the release of yesterday where newer rules are active: it must not come
        up.
        """
        node = self._controller()
        if node.up and self.realm.newest_state().rules_version == max(SUPPORTED_RULES):
            self._did("old_release", node.name)
            node.stop()
            node.rules = SUPPORTED_RULES[:1]
            node.start()
            self.world.after(self.world.between(*DOWN_MS), lambda: self._newest_release(node))

    def _newest_release(self, node: ControllerNode) -> None:
        if node.up and node.rules == SUPPORTED_RULES:
            return  # it has it already, by an upgrade or since everything was healed
        if node.core is not None and node.core.is_active:
            raise InvariantBroken(f"{node.name} leads without the rules that are active")
        node.rules = SUPPORTED_RULES
        if node.up:
            node.stop()
        node.start()

    def _do_stuck_reader(self) -> None:
        """What it appends lands, and nothing comes back."""
        node = self._leader() if self.world.one_in(2) else self._controller()
        self._did("stuck_reader", node.name)
        node.reads_from_ms = self.world.now_ms + self.world.between(*LONG_CUT_MS)
