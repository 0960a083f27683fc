"""A scripted broker: it finds its id, registers, beats, asks, follows and leads, ours or as Java
does it.

Responsible for: what a controller sees of a broker, lost answers, restarts and lost disks included
(RULES 10). Refuses to know: what a controller decides; how bytes are copied (`replicas`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from tests.simulation.control import asks
from tests.simulation.control.history import History, end_of, epoch_of, up_to
from tests.simulation.control.lines import Line, Process
from tests.simulation.control.replicas import Mastership, ReplicaSet

if TYPE_CHECKING:
    from tests.simulation.control.realm import Realm

CALL_MS = 3_000
BEAT_MS = (300, 700)
STEP_MS = (40, 250)
POLL_MS, JAVA_POLL_MS = 1_000, 4_000
LEADER_AGAIN_MS = 3_000
FLUSHED_BEHIND_MAX = 10
AT_RISK = "regentAtRisk"
UNDECIDED = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.CONTROLLER_NOT_LEADER,
)
NOT_REGISTERED = (
    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
)


class Loss(NamedTuple):
    """A Java broker's power went. `left`: (epoch, end) of what it has still; `shown`: what its last
    heartbeat named, by the life of each controller that heard it.
    """

    left: tuple[int, int]
    shown: Mapping[tuple[str, int], tuple[int, int]]


class BrokerNode(Process):
    """One broker. On its disk: id, temporary id, history, highest epoch, and whether power was lost
    since it registered.
    """

    def __init__(self, realm: Realm, replica_set: ReplicaSet, name: str, timeout_ms: int) -> None:
        super().__init__(realm.world, name)
        self.realm, self.set, self.java = realm, replica_set, replica_set.java
        self.timeout_ms = timeout_ms
        self.port = 0
        self.broker_id: int | None = None
        self.history: History = ()
        self.confirmed = 0
        self.highest_epoch = 0
        self.unclean = False
        self.losses: list[Loss] = []
        self._temporary: tuple[int, str] | None = None
        self._reset()

    def _reset(self) -> None:
        self.incarnation = f"{self.name}-{self.life}"
        self.epoch = 0 if self.java else self.highest_epoch
        self.mastership: Mastership | None = None
        self.follows: tuple[int, int] | None = None
        self.registered = False
        self._busy = False
        self._polled_ms = self._leader_ms = self.world.now_ms
        self._leader: str | None = None
        self._lines: dict[str, Line] = {}
        self._command_ids: dict[tuple[object, ...], str] = {}
        self._leaderless = True

    @property
    def address(self) -> str:
        return f"{self.name}:{self.port}"

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        self.begin()
        self._reset()
        self.realm.now_at(self)
        self.soon(self.world.between(0, 300), self._step)
        self.soon(self.world.between(0, 300), self._beat)

    def stop(self) -> None:
        self.end()
        self.mastership = None
        self.realm.lines.died(self)

    def lose_power(self) -> None:
        """What was not flushed is gone."""
        self.stop()
        shown = self.realm.promises.hearing.shown(self)
        self.history = up_to(
            self.history, max(0, end_of(self.history) - self.world.between(0, FLUSHED_BEHIND_MAX))
        )
        self.unclean, self.incarnation = True, "lost"
        if self.java:
            self.losses.append(Loss((epoch_of(self.history), end_of(self.history)), shown))
        self.set.intact.took(self)

    def wipe(self) -> None:
        """Another disk: another replica as far as anybody can tell."""
        self.broker_id, self.history, self.highest_epoch, self.confirmed = None, (), 0, 0
        self.unclean, self._temporary = False, None
        self.losses.clear()
        self.set.intact.took(self)

    def copied(self) -> None:
        """A Java broker says nothing of what it lost; it lacks nothing any more when it has copied
        it.
        """
        if self.java and self.unclean and self.registered and self.set.intact.lacks(self) is None:
            self.unclean = False
            self.losses.clear()

    # -- heartbeats and calls ----------------------------------------------------------------------

    def _extra(self, *wanted: str) -> dict[str, str]:
        """The fields that only our brokers send."""
        if self.java:
            return {}
        known = {
            "regentIncarnation": self.incarnation,
            "regentClean": "false" if self.unclean else "true",
            "regentHaAddress": self._ha_address,
            "regentLastEpoch": str(epoch_of(self.history)),
            "regentEndOffset": str(end_of(self.history)),
            "regentBrokerId": str(self.broker_id),
            "regentMinInSync": str(self.set.minimum),
        }
        return {name: known[name] for name in wanted}

    def _beat(self) -> None:
        self.soon(self.world.between(*BEAT_MS), self._beat)
        if self.broker_id is None or (self.java and not self.registered):
            return
        beat = asks.beat(
            self.set.name,
            self.broker_id,
            self.address,
            self.timeout_ms,
            epoch_of(self.history),
            end_of(self.history),
            min(self.confirmed, end_of(self.history)),
            **self._extra("regentIncarnation", "regentHaAddress"),
        )
        for node in self.realm.controllers:
            self._with_line(node.name, lambda line: line.send(self, beat), lambda why: None)

    def _with_line(
        self, name: str, use: Callable[[Line], None], failed: Callable[[str], None]
    ) -> None:
        line = self._lines.get(name)
        if line is not None and line.open:
            use(line)
            return

        def opened(made: Line) -> None:
            self._lines[name] = made
            use(made)

        self.realm.lines.connect(self, self.realm.place(name), opened, failed)

    def _ask(
        self,
        request: RemotingCommand,
        answered: Callable[[RemotingCommand | None], None],
        to: str | None = None,
    ) -> None:
        """One call at a time, as the product's brokers do; `answered` gets None for everything that
        decides nothing.
        """
        self._busy = True
        target = to or self._target()
        floor = self.realm.promises.asked(request)

        def settled(answer: RemotingCommand | None) -> None:
            self._busy = False
            if answer is not None:
                self.realm.promises.answered(self.name, request, answer, floor)
            if answer is None or answer.code in UNDECIDED:
                self.world.count("broker.unknown")
                self._leader = None
                answered(None)
            else:
                self._learn_epochs(answer)
                answered(answer)

        self._with_line(
            target,
            lambda line: self.call(line, request, CALL_MS, settled),
            lambda why: settled(None),
        )

    def _target(self) -> str:
        """Java asks the leader that it was told of, ours any controller."""
        if self._leader is None or (
            not self.java and self.world.now_ms - self._leader_ms > LEADER_AGAIN_MS
        ):
            self._leader, self._leader_ms = (
                self.world.chance.choice(self.realm.controllers).name,
                self.world.now_ms,
            )
        return self._leader

    def _find_leader(self) -> None:
        self._leader_ms = self.world.now_ms
        self._ask(
            asks.metadata(),
            self._told_leader,
            self.world.chance.choice(self.realm.controllers).name,
        )

    def _told_leader(self, answer: RemotingCommand | None) -> None:
        if answer is not None and "controllerLeaderAddress" in answer.ext:
            self._leader = answer.ext["controllerLeaderAddress"]

    def _command_id(self, *about: object) -> dict[str, str]:
        """The same id for the same wish, until it is answered."""
        if self.java:
            return {}
        known = self._command_ids.setdefault(about, f"{self.world.chance.getrandbits(128):032x}")
        return {"regentCommandId": known}

    # -- one step after the other ------------------------------------------------------------------

    def _step(self) -> None:
        self.soon(self.world.between(*STEP_MS), self._step)
        if self._busy:
            return
        if self.java and (
            self._leader is None or self.world.now_ms - self._leader_ms > LEADER_AGAIN_MS
        ):
            self._find_leader()
        elif self.broker_id is None:
            self._find_id()
        elif not self.registered:
            self._register()
        elif self.mastership is not None and self._propose(self.mastership):
            return
        elif self.world.now_ms - self._polled_ms > (
            JAVA_POLL_MS if self.java else POLL_MS
        ) and not (self.java and self._leaderless):
            # ours also while nobody leads: it hears that another start of it is registered
            self._poll()
        elif self._leaderless:
            self._elect()

    def _find_id(self) -> None:
        if self._temporary is None:
            self._ask(asks.next_id(self.set.name), self._offered)
            return
        broker_id, code = self._temporary
        request = asks.apply_id(
            self.set.name, broker_id, code, **self._command_id("apply", broker_id, code)
        )
        self._ask(request, lambda answer: self._granted(broker_id, code, answer))

    def _offered(self, answer: RemotingCommand | None) -> None:
        if answer is not None and answer.code == 0:
            code = f"{self.address};{self.world.chance.getrandbits(32)}"
            self._temporary = int(answer.ext["nextBrokerId"]), code

    def _granted(self, broker_id: int, code: str, answer: RemotingCommand | None) -> None:
        if answer is None:
            if self.java:  # its defect: the id may be taken for ever (15, row 13)
                self.world.count("java.temporary_dropped")
                self._temporary = None
            return
        self._command_ids.clear()
        self._temporary = None
        if answer.code == 0:
            self.broker_id = broker_id
            self.realm.promises.granted(self, broker_id, code)
        else:
            self.world.count("broker.id_refused")

    def _register(self) -> None:
        assert self.broker_id is not None
        extra = self._extra(
            "regentIncarnation",
            "regentClean",
            "regentHaAddress",
            "regentLastEpoch",
            "regentEndOffset",
            "regentMinInSync",
        )
        request = asks.register(
            self.set.name,
            self.broker_id,
            self.address,
            **extra,
            **self._command_id("register", self.life),
        )
        self._ask(request, self._registered)

    def _registered(self, answer: RemotingCommand | None) -> None:
        if answer is None:
            return
        self._command_ids.clear()
        if answer.code == 0:
            self.registered = True
            # which does not say so: only its heartbeats show it
            self.unclean = self.unclean and self.java
            self._leaderless = "masterBrokerId" not in answer.ext
            self._take_role(answer)
        else:
            self.world.count("broker.registration_refused")
            self._cleaned_meanwhile(answer.code)

    def _cleaned_meanwhile(self, code: int) -> None:
        """An operator's wish may land late and forget a broker that was down by then: its machine
        gets an empty disk.
        """
        known = self.realm.newest_state().sets.get(self.set.name)
        if (
            code not in NOT_REGISTERED
            or self.broker_id is None
            or (known and known.replica(self.broker_id))
        ):
            return
        self.stop()
        self.wipe()
        self.start()

    def _elect(self) -> None:
        assert self.broker_id is not None
        ids = self._command_id("elect", self.epoch, self.world.now_ms)
        request = asks.elect(
            self.set.name, self.broker_id, **ids, **self._extra("regentIncarnation")
        )
        self._ask(request, self._elected)

    def _elected(self, answer: RemotingCommand | None) -> None:
        self._command_ids.clear()
        if answer is None:
            return
        if answer.code in NOT_REGISTERED:
            self.registered = False
        elif answer.code in (0, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            self._leaderless = False
            self._take_role(answer)
        if self.java:
            self._polled_ms = self.world.now_ms

    def _poll(self) -> None:
        extra = self._extra("regentBrokerId", "regentIncarnation")
        self._ask(asks.replica_info(self.set.name, **extra), self._polled)

    def _polled(self, answer: RemotingCommand | None) -> None:
        self._polled_ms = self.world.now_ms
        if answer is None:
            return
        if answer.code in NOT_REGISTERED:
            self.registered = False
        elif answer.code == 0:
            self._take_role(answer)
            if int(answer.ext["masterEpoch"]) >= self.epoch and "masterBrokerId" not in answer.ext:
                self._leaderless = True

    def _propose(self, mastership: Mastership) -> bool:
        """S3: the same proposal again until it is resolved. True when something was asked."""
        if mastership.open is None or mastership.open not in mastership.proposed:
            members = self.set.next_members(self, mastership)
            if members is None:
                return False
            mastership.open = mastership.set_epoch, members
            if mastership.open not in mastership.proposed:
                mastership.proposed.append(mastership.open)
        base, wanted = mastership.open
        assert self.broker_id is not None
        wish = ("alter", mastership.epoch, base, wanted)
        request = asks.alter(
            self.set.name,
            self.broker_id,
            mastership.epoch,
            base,
            list(wanted),
            **self._command_id(*wish),
        )
        self._ask(request, lambda answer: self._altered(mastership, base, wanted, answer))
        return True

    def _altered(
        self,
        mastership: Mastership,
        base: int,
        wanted: tuple[int, ...],
        answer: RemotingCommand | None,
    ) -> None:
        if answer is None:
            return
        self._command_ids.clear()
        if answer.code == 0:
            members, set_epoch = _set_in(answer)
            if members is not None:
                mastership.learn(members, set_epoch, self.world.now_ms)
            return
        self.world.count(f"alter.{answer.code}")
        mastership.open = None
        if not self.java and (base, wanted) in mastership.proposed:
            # the same command id: this very proposal is decided
            mastership.proposed.remove((base, wanted))
        self._polled_ms = 0
        self._poll()

    # -- roles -------------------------------------------------------------------------------------

    def took(self, line: Line, message: RemotingCommand) -> None:
        if (
            message.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED
            and self.broker_id is not None
            and (self.registered or not self.java)
        ):
            self.world.count("broker.notified")
            self._learn_epochs(message)
            self._take_role(message)
        elif message.code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            ha_address = message.ext.get("masterHaAddress")
            self.world.count("java.asked" if ha_address is None else "java.linked")
        if not message.is_oneway:
            leads = self.mastership is not None
            line.send(
                self, message.reply(0, {"masterHaAddress": self._ha_address} if leads else {})
            )

    @property
    def _ha_address(self) -> str:
        return f"{self.address}-ha"

    def lost(self, line: Line) -> None:
        for name, one in list(self._lines.items()):
            if one is line:
                del self._lines[name]

    def _learn_epochs(self, message: RemotingCommand) -> None:
        """S8: on a higher epoch a broker of ours stops acting in the old one first."""
        if (
            self.mastership is not None
            and int(message.ext.get("regentMasterEpoch", "0")) > self.mastership.epoch
        ):
            self.mastership = None

    def _take_role(self, message: RemotingCommand) -> None:
        if "masterBrokerId" not in message.ext or "masterAddress" not in message.ext:
            return
        epoch, master = int(message.ext["masterEpoch"]), int(message.ext["masterBrokerId"])
        members, set_epoch = _set_in(message)
        mastership = self.mastership
        if epoch == self.epoch and mastership is not None and members is not None:
            mastership.learn(members, set_epoch, self.world.now_ms)
        if (
            epoch == self.epoch
            and not self.java
            and self.follows is None
            and master != self.broker_id
        ):
            self.follows = (epoch, master)  # a restart within the epoch it follows
        if epoch <= self.epoch:
            return
        self.epoch = epoch
        self.highest_epoch = max(self.highest_epoch, epoch)
        self.follows = None if master == self.broker_id else (epoch, master)
        self.mastership = None
        if (
            master == self.broker_id
            and self.unclean
            and not self.java
            and message.ext.get(AT_RISK) != "true"
        ):
            # it was chosen for what its former start told: it registers as what it is
            self.world.count("broker.vetoed")
            self.registered = False
        elif master == self.broker_id and members is not None:
            self.mastership = Mastership(epoch, members, set_epoch, self.world.now_ms)
            self.realm.promises.leads(self, epoch)
        self.world.count("broker.role")


def _set_in(message: RemotingCommand) -> tuple[tuple[int, ...] | None, int]:
    """The set and its epoch as the body has it; 1002 has the epoch in its header."""
    if not message.body:
        return None, -1
    body = fastjson.loads(message.body)
    epoch = body.get(
        "syncStateSetEpoch",
        message.ext.get("syncStateSetEpoch", message.ext.get("newSyncStateSetEpoch", -1)),
    )
    return tuple(body["syncStateSet"]), int(epoch)
