"""A controller process of the world: the product's core, fold and snapshot codec in a simulated
shell.

Responsible for: starting as the product starts, performing the core's effects, and telling the
promises what was done.
Refuses to know: any rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.context import CoreConfig
from processors.controller.core import ControllerCore
from processors.fold import snapshot_codec
from processors.fold.folder import Folder, ReleaseTooOld
from processors.fold.snapshot_codec import SnapshotError
from processors.wire.answers import not_leader
from tests.simulation.control.lines import Line, Process
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from events.outcomes import Outcome
    from tests.simulation.control.realm import Realm

TICK_MS = 50
WATCH_ONE_IN = 10
SNAPSHOT_EVERY = 20
SNAPSHOTS_KEPT = 3
PROBE_OPEN_MS = 2
PROBE_TIMEOUT_MS = 500
PUBLISH_MS = (0, 2)
SEND_OUTCOME_MS = 12
REFOLD_MS = (5, 200)
RETRY_MS = 25


class ControllerNode(Process):
    """One controller. `rules`: what its installed release supports. `disk`: its snapshots by
    offset.
    """

    def __init__(self, realm: Realm, name: str, rules: tuple[int, ...]) -> None:
        super().__init__(realm.world, name)
        self.realm, self.rules = realm, rules
        self.core: ControllerCore | None = None
        self.folder = Folder()
        self.disk: dict[int, bytes] = {}
        self.wall_shift_ms = 0
        self.too_old = False
        self.owed: dict[tuple[int, int], tuple[int, RemotingCommand]] = {}
        self._lines: dict[int, Line] = {}
        self._outbound: dict[str, Line] = {}
        self._to_publish: deque[Outcome] = deque()
        self._ready = False

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        self.begin()
        self.core, self.folder, self._ready, self.too_old = None, Folder(), False, False
        self.owed, self._lines, self._outbound, self._to_publish = {}, {}, {}, deque()
        self._catch_up()

    def stop(self) -> None:
        self.end()
        self.core = None
        self.reads_from_ms = 0
        self.realm.promises.controller_died(self)
        self.realm.lines.died(self)

    def _catch_up(self) -> None:
        """As `controller_log.catch_up`: the newest good snapshot not beyond what is published, then
        the log up to its end.
        """
        topics = self.realm.topics
        if not topics.reaches_outcomes(self):
            self.soon(RETRY_MS, self._catch_up)
            return
        self._published = topics.newest_published()
        self._until = topics.end_offset()
        self._folded: list[Outcome] = []
        self.folder = self._newest_snapshot()
        self._reader = topics.reader(self, self.folder.next_offset, self._read)
        self._begin()

    def _newest_snapshot(self) -> Folder:
        for offset in sorted(self.disk, reverse=True):
            if offset <= self._published:
                try:
                    folder = snapshot_codec.load(self.disk[offset], self.rules)
                except SnapshotError as error:
                    self.world.count("snapshot.refused")
                    self.world.note(f"{self.name}: snapshot {offset}: {error}")
                    continue
                self.world.count("snapshot.used")
                self.realm.promises.loaded(self, folder)
                return folder
        return Folder(supported_rules=self.rules)

    def _keep_snapshot(self) -> None:
        if self.folder.offset % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
            self.disk[self.folder.offset] = snapshot_codec.dump(self.folder)
            for old in sorted(self.disk)[:-SNAPSHOTS_KEPT]:
                del self.disk[old]

    def _begin(self) -> None:
        if self._ready or self.folder.next_offset < self._until:
            return
        realm, peers = self.realm, {node.name: node.name for node in self.realm.controllers}
        config = CoreConfig(
            self.name,
            self.name,
            realm.cluster_id,
            peers,
            release=f"with rules {self.rules}",
            settings=realm.settings,
            supported_rules=self.rules,
        )
        self.core = ControllerCore(config, self.folder, self._ids())
        self._ready = True
        self.world.count("controller.started")
        unpublished = [one for one in self._folded if one.command_offset > self._published]
        self.core.start(self.world.now_ms, self._wall(), unpublished)
        self._tick()

    def _ids(self) -> Iterator[bytes]:
        while True:
            yield self.world.chance.getrandbits(128).to_bytes(16, "big")

    def _wall(self) -> int:
        return self.world.wall_ms + self.wall_shift_ms

    def running_ms(self) -> int:
        """Time this process was not paused."""
        return self.world.now_ms - self.paused_ms

    def _read(self, offset: int, data: bytes) -> None:
        before = self.folder.state
        try:
            applied = self.folder.apply(offset, data)
        except ReleaseTooOld as error:
            self._refuse_to_go_on(str(error))
            return
        self.realm.promises.applied(self, before, applied)
        self._keep_snapshot()
        if self._ready:
            assert self.core is not None
            self.perform(self.core.on_applied(applied, self.world.now_ms, self._wall()))
        else:
            self._folded.append(applied.outcome)
            self._begin()

    def _refuse_to_go_on(self, why: str) -> None:
        """The product ends loudly here, and starts again only with another release."""
        self.world.note(f"{self.name} ends: {why}")
        self.world.count("controller.too_old")
        self.too_old = True
        self.realm.promises.refused_to_go_on(self)
        self.stop()

    def _tick(self) -> None:
        assert self.core is not None
        self.perform(self.core.tick(self.world.now_ms, self._wall()))
        self.realm.promises.all_answered(self)
        if self.world.one_in(WATCH_ONE_IN):
            self.realm.promises.hearing.watch(self)
        self.soon(TICK_MS, self._tick)

    # -- what comes in -----------------------------------------------------------------------------

    def took(self, line: Line, message: RemotingCommand) -> None:
        if message.code == RequestCode.BROKER_HEARTBEAT:
            self.realm.promises.hearing.heard(self, line.other(self), message)
        if not message.is_oneway:
            self.owed[line.number, message.opaque] = self.running_ms(), message
        if not self._ready:
            if not message.is_oneway:
                self._answer(line, not_leader(message))
            return
        assert self.core is not None
        self._lines[line.number] = line
        peer = f"{line.other(self).name}:1"
        self.perform(
            self.core.on_request(line.number, peer, message, self.world.now_ms, self._wall())
        )

    def lost(self, line: Line) -> None:
        self._lines.pop(line.number, None)
        for key in [key for key in self.owed if key[0] == line.number]:
            del self.owed[key]
        address = next((address for address, one in self._outbound.items() if one is line), None)
        if address is not None:
            del self._outbound[address]
        if address is not None and line.server in self.realm.controllers:
            self._tell_core(lambda core: core.on_peer_closed(address, False, self.world.now_ms))
        elif line.server is self:
            self._tell_core(lambda core: core.on_connection_closed(line.number, self.world.now_ms))

    def _tell_core(self, what: Callable[[ControllerCore], list[fx.Effect]]) -> None:
        if self.core is not None:
            self.perform(what(self.core))

    # -- effects -----------------------------------------------------------------------------------

    def perform(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if not self.up:
                return
            getattr(self, "_do_" + type(effect).__name__)(effect)

    def _do_Append(self, effect: fx.Append) -> None:
        self.realm.promises.appending(self, effect.data)

        def report(offset: int | None) -> None:
            self._tell_core(
                lambda core: core.on_append_result(effect.command_id, offset, self.world.now_ms)
            )

        self.realm.topics.append(self, effect.data, report)

    def _do_Reply(self, effect: fx.Reply) -> None:
        line = self._lines.get(effect.conn_id)
        if line is not None:
            self._answer(line, effect.response)

    def _answer(self, line: Line, response: RemotingCommand) -> None:
        self.realm.promises.answering(self, line, response)
        line.send(self, response)

    def _do_NotifyRole(self, effect: fx.NotifyRole) -> None:
        self._with_line(
            effect.address, lambda line: line.send(self, effect.command), lambda why: None
        )

    def _do_AskBroker(self, effect: fx.AskBroker) -> None:
        def answered(answer: RemotingCommand | None) -> None:
            self._tell_core(
                lambda core: core.on_broker_answer(effect.token, answer, self.world.now_ms)
            )

        self._with_line(
            effect.address,
            lambda line: self.call(line, effect.request, effect.timeout_ms, answered),
            lambda why: answered(None),
        )

    def _do_SetLogLevel(self, effect: fx.SetLogLevel) -> None:
        self.world.count("log_level")

    def _do_TellPeer(self, effect: fx.TellPeer) -> None:
        def failed(why: str) -> None:
            if why == "refused":
                self._tell_core(
                    lambda core: core.on_peer_closed(effect.address, True, self.world.now_ms)
                )

        self._with_line(effect.address, lambda line: line.send(self, effect.command), failed)

    def _do_ForwardToLeader(self, effect: fx.ForwardToLeader) -> None:
        def answered(response: RemotingCommand | None) -> None:
            self._tell_core(
                lambda core: core.on_reply_from_leader(effect.token, response, self.world.now_ms)
            )

        def send(line: Line) -> None:
            """Within the time, connecting included, as the product's client has it."""
            self.call(line, effect.request, max(1, until_ms - self.world.now_ms), answered)

        self.world.count("forwarded")
        until_ms = self.world.now_ms + effect.timeout_ms
        self._with_line(effect.address, send, lambda why: answered(None))

    def _do_Probe(self, effect: fx.Probe) -> None:
        place = self.realm.place(effect.address)
        result, delay_ms = "refused", PROBE_OPEN_MS
        if place is not None and self.realm.lines.is_apart(self.name, place.name):
            result, delay_ms = "timeout", PROBE_TIMEOUT_MS
        elif place is not None and place.up:
            result = "open"
        self.world.count(f"probe.{result}")
        self.soon(
            delay_ms,
            lambda: self._tell_core(
                lambda core: core.on_probe_result(
                    effect.address, result, self.world.now_ms, self._wall()
                )
            ),
        )

    def _do_AskEndOffset(self, effect: fx.AskEndOffset) -> None:
        topics = self.realm.topics
        topics.ask(
            self,
            topics.end_offset,
            lambda end: self._tell_core(lambda core: core.on_end_offset(effect.token, end)),
        )

    def _do_AskLastPublished(self, effect: fx.AskLastPublished) -> None:
        topics = self.realm.topics
        topics.ask(
            self,
            topics.newest_published,
            lambda last: self._tell_core(
                lambda core: core.on_last_published(effect.token, last, self.world.now_ms)
            ),
            of_outcomes=True,
        )

    def _do_FoldAgain(self, effect: fx.FoldAgain) -> None:
        def look() -> None:
            topics = self.realm.topics
            outcomes: list[Outcome] | None = None
            if topics.reaches(self):
                self.world.count("folded_again")
                folder = Folder(supported_rules=self.rules)
                applied = [
                    folder.apply(offset, data).outcome
                    for offset, data in enumerate(topics.records[: effect.end])
                ]
                outcomes = applied[effect.first :]
            self._tell_core(lambda core: core.on_folded_again(outcomes, self.world.now_ms))

        self.soon(self.world.between(*REFOLD_MS), look)

    def _do_Publish(self, effect: fx.Publish) -> None:
        """In order and without an end: the producer of outcomes never gives up, only a death drops
        the rest.
        """
        self._to_publish.append(effect.outcome)
        if len(self._to_publish) == 1:
            self.soon(SEND_OUTCOME_MS, self._publish_next)

    def _publish_next(self) -> None:
        if not self.realm.topics.reaches_outcomes(self):
            self.world.count("outcome.late")
            self.soon(RETRY_MS, self._publish_next)
            return
        outcome = self._to_publish.popleft()
        self.realm.promises.published(self, outcome)
        self.realm.topics.outcomes.append(outcome)
        if self._to_publish:
            self.soon(self.world.between(*PUBLISH_MS), self._publish_next)
        offset = outcome.command_offset
        self.soon(
            2,
            lambda: self._tell_core(
                lambda core: core.on_publish_result(offset, True, self.world.now_ms)
            ),
        )

    def _do_CloseConnection(self, effect: fx.CloseConnection) -> None:
        line = self._lines.pop(effect.conn_id, None)
        if line is not None:
            line.ended_by(self)

    def _do_Report(self, effect: fx.Report) -> None:
        """Nobody in here reads the facts."""

    def _do_Note(self, effect: fx.Note) -> None:
        self.world.note(f"{self.name}: {effect.text}")

    def _do_Halt(self, effect: fx.Halt) -> None:
        raise InvariantBroken(f"{self.name} halts: {effect.reason}")

    def _with_line(
        self, address: str, use: Callable[[Line], None], failed: Callable[[str], None]
    ) -> None:
        line = self._outbound.get(address)
        if line is not None and line.open:
            use(line)
        else:
            self.realm.lines.connect(
                self,
                self.realm.place(address),
                lambda made: self._opened(address, made, use),
                failed,
            )

    def _opened(self, address: str, line: Line, use: Callable[[Line], None]) -> None:
        self._outbound[address] = line
        use(line)
