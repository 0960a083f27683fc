"""What `brokers/membership/membership.py` and `brokers/membership/controller_client.py` are to a
real broker, over the simulated network.

Responsible for: registering, asking the leading controller with repeats under one command id,
heartbeats, notices.
Refuses to know: what an answer means for the replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from brokers.membership import controller_messages as messages
from brokers.membership import registration as reg
from brokers.membership.membership import CODES_UNREGISTERED, WAIT_MAX_MS, WAIT_MIN_MS
from brokers.membership.role_notices import HINT_PAUSE_MS
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from tests.simulation.network import End
from tests.simulation.strays import HEARTBEAT
from tests.simulation.wire import Answered, Wire

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

CALL_MS = 3_000
RESOLVE_MS = 1_000
RETRY_MS = 50
RECONNECT_MS = 200
HEARTBEAT_TIMEOUT_MS = 4_000
ASTRAY_ONE_IN = 6
"""So often a request goes to any controller, which forwards it."""


class ControllerLinks:
    """A kept connection to every controller, and requests to the one that leads."""

    def __init__(self, node: BrokerNode, greeting: Callable[[], RemotingCommand | None]) -> None:
        self.node, self.world = node, node.world
        self._greeting = greeting
        self._leader: str | None = None
        self._wires: dict[str, Wire] = {}

    @property
    def leader(self) -> str | None:
        return self._leader

    def start(self) -> None:
        for name in self.node.cluster.controller_names:
            self._connect(name)

    def _connect(self, name: str) -> None:
        place = self.node.cluster.node_at(name)

        def opened(end: End) -> None:
            wire = self._wires[name] = Wire(
                self.world, end, self.node.request, lambda wire: self._lost(name, wire)
            )
            greeting = self._greeting()
            if greeting is not None:
                wire.send(greeting)

        def failed(why: str) -> None:
            self.node.later(RECONNECT_MS, lambda: self._connect(name))

        self.node.cluster.network.connect(self.node, place, place.accept, opened, failed)

    def _lost(self, name: str, wire: Wire) -> None:
        if self._wires.get(name) is wire:
            del self._wires[name]
            if self._leader == name:
                self._leader = None
            self.node.later(RETRY_MS, lambda: self._connect(name))

    def heartbeat(self, command: RemotingCommand) -> None:
        cluster = self.node.cluster
        for name, wire in list(self._wires.items()):
            cluster.strays.carry(
                HEARTBEAT, self.node, cluster.node_at(name), command, partial(wire.send, command)
            )

    def ask(self, request: RemotingCommand, answered: Answered) -> None:
        """The leader's answer, or None: nobody knows what became of it. The same command goes to
        the next leader.
        """
        deadline_ms = self.world.now_ms + CALL_MS

        def attempt() -> None:
            left_ms = deadline_ms - self.world.now_ms
            if left_ms <= 0:
                answered(None)
                return
            name = self._leader
            if self.world.one_in(ASTRAY_ONE_IN):
                name = self.world.chance.choice(self.node.cluster.controller_names)
            wire = self._wires.get(name or "")
            if name is None:
                self._find_leader(
                    lambda: self.node.later(RETRY_MS if self._leader is None else 0, attempt)
                )
            elif wire is None:
                again(name)
            else:
                wire.call(request, left_ms, lambda answer: take(name, answer))

        def take(name: str, answer: RemotingCommand | None) -> None:
            if answer is not None and answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                answered(answer)
            else:
                again(name)

        def again(name: str) -> None:
            if self._leader == name:
                self._leader = None
            self.node.later(RETRY_MS, attempt)

        attempt()

    def _find_leader(self, then: Callable[[], None]) -> None:
        """1005 to all; who says that it leads wins, else whom the last one named."""
        waiting, found = len(self._wires), False
        if not waiting:
            then()
            return

        def answered(answer: RemotingCommand | None) -> None:
            nonlocal waiting, found
            waiting -= 1
            address = (
                answer.ext.get("controllerLeaderAddress")
                if answer is not None and answer.code == 0
                else None
            )
            if found:
                return
            self._leader = address or self._leader
            if (
                address and answer is not None and answer.ext.get("isLeader") == "true"
            ) or not waiting:
                found = True
                then()

        for wire in list(self._wires.values()):
            wire.call(messages.metadata(), RESOLVE_MS, answered)


class MembershipShell:
    """One life of a broker among its controllers."""

    def __init__(self, node: BrokerNode) -> None:
        self.node, self.world, self.disk = node, node.world, node.disk
        cluster = node.cluster
        self.me = messages.Introduction(
            cluster.cluster_name,
            cluster.set_name,
            node.address,
            node.ha_address,
            node.incarnation,
            1 if cluster.shape.count_mode else node.settings.min_in_sync,
            notice_token=(f"token of {node.incarnation}"),
        )
        self.broker_id: int | None = None
        self.registered = False
        self._ids = self._command_ids()
        self._registration = reg.Registration(
            cluster.cluster_name, cluster.set_name, node.address, self._ids
        )
        self._controllers = ControllerLinks(node, self._greeting)
        self._asking: dict[bool, int] = {}
        self._reregistering = self._hinted = False

    def start(self) -> None:
        self._controllers.start()
        self._drive(self._registration.start(self.disk.identity, self.disk.temp_identity))

    def _command_ids(self) -> Iterator[str]:
        while True:
            yield f"{self.world.chance.getrandbits(128):032x}"

    # -- registration ------------------------------------------------------------------------------

    def _drive(self, effects: reg.Effects) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: reg.Effect) -> None:
        one = self._registration
        match effect:
            case reg.AskNextBrokerId():
                self._controllers.ask(
                    messages.next_broker_id(self.me),
                    lambda answer: self._drive(
                        one.next_id_answered(
                            messages.settled_code(answer),
                            None if answer is None else messages.read_next_broker_id(answer),
                            self.node.wall_ms,
                        )
                    ),
                )
            case reg.WriteTemp(temp):
                self.disk.temp_identity = temp
                self._drive(one.temp_written(True))
            case reg.DeleteTemp():
                self.disk.temp_identity = None
            case reg.ApplyBrokerId(broker_id, check_code, name):
                request = messages.apply_broker_id(self.me, broker_id, check_code, name)
                self._controllers.ask(
                    request,
                    lambda answer: self._drive(one.apply_answered(messages.settled_code(answer))),
                )
            case reg.WriteIdentity(identity):
                self.disk.identity = identity
                self._drive(one.identity_written(True))
            case reg.RegisterBroker(broker_id, name):
                self._register(broker_id, name)
            case reg.Wait():
                self.node.later(
                    self.world.between(WAIT_MIN_MS, WAIT_MAX_MS), lambda: self._drive(one.retry())
                )
            case reg.Refused(reason):
                raise AssertionError(reason)

    def _register(self, broker_id: int, name: str) -> None:
        if self.broker_id is None:
            self.broker_id = broker_id
            self.me = replace(self.me, check_code=self._registration.check_code)
            self.node.identity_known(broker_id)
        clean = self.node.core is not None and self.node.core.clean
        request = messages.register_broker(
            self.me, broker_id, self.node.position(), clean, name, self.node.wall_ms
        )
        self._controllers.ask(request, self._register_answered)

    def _register_answered(self, answer: RemotingCommand | None) -> None:
        effects = self._registration.register_answered(messages.settled_code(answer))
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            self.registered, self._reregistering = True, False
            self.beat()
            notice = messages.role_notice(answer, "register")
            if notice is None or notice.master_id is None:
                self.ask(elect=True)
            if notice is not None:
                self.node.notice(notice)
        self._drive(effects)

    def register_again(self) -> None:
        """As `membership.register_again`."""
        if not self._reregistering:
            self._reregistering = True
            self._drive(self._registration.reregister())

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, *, elect: bool) -> None:
        """1002 or 1004, without waiting; one of each kind at a time."""
        elect = elect and not self.node.settings.is_learner
        if self.broker_id is None or self._asking.get(elect):
            return
        self._asking[elect] = 1
        if elect:
            request = messages.elect_master(
                self.me, self.broker_id, next(self._ids), self.node.wall_ms
            )
        else:
            request = messages.replica_info(self.me, self.broker_id)
        self._controllers.ask(request, lambda answer: self._answered(elect, answer))

    @property
    def leader(self) -> str | None:
        """The controller that leads, as far as known."""
        return self._controllers.leader

    def elect(self, broker_id: int, designate: bool, answered: Answered) -> None:
        """1002 for a replica of the set; what it says of the roles is followed at once."""
        request = messages.elect_master(
            self.me, broker_id, next(self._ids), self.node.wall_ms, designate
        )

        def take(answer: RemotingCommand | None) -> None:
            self._take("elect", answer)
            answered(answer)

        self._controllers.ask(request, take)

    def _answered(self, elect: bool, answer: RemotingCommand | None) -> None:
        self._asking[elect] = 0
        self._take("elect" if elect else "poll", answer)

    def _take(self, source: str, answer: RemotingCommand | None) -> None:
        if answer is None:
            return
        if answer.code in CODES_UNREGISTERED:
            self.register_again()
        elif answer.code in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            notice = messages.role_notice(answer, source)
            if notice is not None:
                self.node.notice(notice)

    def notified(self, message: RemotingCommand) -> None:
        """1008, as `brokers/membership/role_notices.py`: one that is not proven makes this broker
        ask, and ask once more if it was asking.
        """
        notice = messages.role_notice(message, "notify")
        if notice is None or self.broker_id is None:
            return
        if messages.is_from_controller(message, self.me):
            self.node.notice(notice)
        elif not self._hinted:
            self._hinted = True
            self._follow_hint()

    def _follow_hint(self) -> None:
        if self._asking.get(False):
            self.node.later(HINT_PAUSE_MS, self._follow_hint)
        else:
            self._hinted = False
            self.world.count("notice.unproven")
            self.ask(elect=False)

    def propose(self, effect: ProposeSyncSet, name: str) -> None:
        """1001, and what is known of its outcome."""
        assert self.broker_id is not None
        request = messages.alter_sync_state_set(
            self.me,
            self.broker_id,
            effect.members,
            effect.base_set_epoch,
            effect.master_epoch,
            name,
            self.node.wall_ms,
            effect.lost_members,
        )

        def answered(answer: RemotingCommand | None) -> None:
            told = None if answer is None else messages.read_alter_answer(answer)
            if answer is not None and answer.code in CODES_UNREGISTERED:
                self.register_again()
            known = (
                (None, None, None)
                if told is None
                else (told.members, told.set_epoch, told.master_epoch)
            )
            self.node.step(
                lambda core: core.on_alter_result(
                    effect.token, messages.settled_code(answer), *known, self.world.now_ms
                )
            )

        self._controllers.ask(request, answered)

    def beat(self) -> None:
        greeting = self._greeting()
        if greeting is not None:
            self._controllers.heartbeat(greeting)

    def _greeting(self) -> RemotingCommand | None:
        if self.broker_id is None or not self.registered:
            return None
        return messages.heartbeat(
            self.me,
            self.broker_id,
            self.node.position(),
            HEARTBEAT_TIMEOUT_MS,
            self.node.settings.priority,
        )
