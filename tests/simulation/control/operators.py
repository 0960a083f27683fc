"""An operator: designates, cleans, changes settings, hands leadership over, upgrades; asks any
controller.

Refuses to know: whether the wish makes sense at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from processors.fold.rules import SETTING_DEDUPE_WINDOW
from tests.simulation.control import asks
from tests.simulation.control.brokers import UNDECIDED
from tests.simulation.control.lines import Answered, Process

if TYPE_CHECKING:
    from tests.simulation.control.brokers import BrokerNode
    from tests.simulation.control.realm import Realm
    from tests.simulation.control.replicas import ReplicaSet

CALL_MS = 5_000
AGAIN_MS = 500
SETTINGS = (
    (SETTING_DEDUPE_WINDOW, ("40", "60", "100")),
    ("processReadEvent", ("true", "false")),
    ("notifyBrokerRoleChanged", ("true", "true", "false")),
    ("scanInactiveMasterInterval", ("1000", "5000")),
)


class OperatorNode(Process):
    """Each wish over a connection of its own."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(realm.world, "operator")
        self.realm = realm
        self.begin()

    def wish(
        self, what: str, request: RemotingCommand, then: Answered = lambda answer: None
    ) -> None:
        """Ask some controller."""
        floor = self.realm.promises.asked(request)
        node = self.world.chance.choice(self.realm.controllers)

        def settled(answer: RemotingCommand | None) -> None:
            code = "none" if answer is None else str(answer.code)
            self.world.count(f"operator.{what}.{code}")
            if answer is not None:
                self.realm.promises.answered(self.name, request, answer, floor)
            then(answer)

        self.realm.lines.connect(
            self,
            node,
            lambda line: self.call(line, request, CALL_MS, settled),
            lambda why: settled(None),
        )

    def designate(self, broker: BrokerNode) -> None:
        if broker.broker_id is not None:
            self.wish("designate", asks.elect(broker.set.name, broker.broker_id, True))

    def transfer(self) -> None:
        names: list[str | None] = [None, *(node.name for node in self.realm.controllers)]
        self.wish("transfer", asks.transfer_leadership(self.world.chance.choice(names)))

    def change_settings(self) -> None:
        """Of those that lose no data; which of them the rules know is the log's matter."""
        name, values = self.world.chance.choice(SETTINGS)
        self.wish("settings", asks.change_settings({name: self.world.chance.choice(values)}))

    def activate(self, version: int) -> None:
        self.wish("activate", asks.activate_rules(version))

    def odd(self, replicas: ReplicaSet) -> None:
        """What no broker asks for; it must be refused, or change nothing."""
        known = self.realm.newest_state().sets.get(replicas.name)
        if known is None or known.master_broker_id is None:
            # To clean an id that nobody has registered with yet is no odd wish: it is granted.
            return
        name, master, epochs = (
            known.broker_name,
            known.master_broker_id,
            (known.master_epoch, known.sync_state_set_epoch),
        )
        others = [one for one in known.sync_state_set if one != known.master_broker_id] or [777]
        # Whoever is not heard is cleaned as wished; a broker of ours notices that, a Java broker
        # never does.
        whom = (
            master
            if not replicas.java and replicas.is_whole() and self._is_within_reach(replicas)
            else 777
        )
        self.wish(
            "odd",
            self.world.chance.choice(
                [
                    asks.alter(name, master, *epochs, others),
                    asks.alter(name, master, epochs[0] - 1, epochs[1], [master, 777]),
                    asks.alter(name, master, *epochs, list(known.sync_state_set)),
                    asks.alter(name, master, epochs[0], epochs[1] - 1, [master, 777]),
                    asks.alter(name, others[0], *epochs, others),
                    asks.alter(name, master, *epochs, [master, 777]),
                    asks.alter("nobody-knows", 1, 1, 1, [1]),
                    asks.apply_id(name, known.next_broker_id + 90, "nobody:1;1"),
                    asks.apply_id(name, 1, "nobody:1;1"),
                    asks.register(name, 1 << 20, "nobody:1"),
                    asks.register("nobody-knows", 1, "nobody:1"),
                    asks.elect(name, 777),
                    asks.elect(name, -1, True),
                    asks.clean(name, str(whom)),
                    asks.clean("nobody-knows", "1"),
                    asks.clean(name, ";"),
                ]
            ),
        )

    def _is_within_reach(self, replicas: ReplicaSet) -> bool:
        apart = self.realm.lines.is_apart
        return not any(
            apart(one.name, node.name)
            for one in replicas.brokers
            for node in self.realm.controllers
        )

    def clean(self, broker: BrokerNode) -> None:
        """A broker that is gone for good; its machine comes back with an empty disk."""
        broker_id = broker.broker_id
        if broker_id is None:
            return
        broker.wipe()
        self.wish("clean", asks.clean(broker.set.name, str(broker_id)))

    def retire(self, replicas: ReplicaSet) -> None:
        """The whole set, with all its data; its machines come back once the controller has said
        that it is gone.
        """
        for broker in replicas.brokers:
            if broker.up:
                broker.stop()
            broker.wipe()
        replicas.forget()
        replicas.retiring = True
        self._retire(replicas, f"{self.world.chance.getrandbits(128):032x}")

    def _retire(self, replicas: ReplicaSet, command_id: str) -> None:
        """Under one id: a former asking that lands late must not clean what has come back."""

        def retired(answer: RemotingCommand | None) -> None:
            if answer is None or answer.code in UNDECIDED:
                self.soon(AGAIN_MS, lambda: self._retire(replicas, command_id))
                return
            replicas.forget()
            for broker in replicas.brokers:
                broker.start()

        self.wish(
            "retire", asks.clean(replicas.name, "", True, regentCommandId=command_id), retired
        )
