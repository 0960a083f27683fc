"""A controller process of the world: the product's core and fold, a simulated shell around them.

Responsible for: performing the core's effects on the simulated log and network.
Refuses to know: any rule; it only carries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.context import CoreConfig
from processors.controller.core import ControllerCore
from processors.fold import snapshot_codec
from processors.fold.folder import Applied, Folder
from processors.fold.rules import SETTING_DEDUPE_WINDOW
from processors.fold.state_digest import has_state_digest
from processors.log import snapshot_proof
from processors.wire.answers import not_leader
from tests.simulation.checkers import DEDUPE_WINDOW
from tests.simulation.network import End, wake
from tests.simulation.strays import NOTICE
from tests.simulation.wire import Wire
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from events.outcomes import Outcome
    from tests.simulation.cluster import Cluster

TICK_MS = 50
APPEND_DEADLINE_MS = 2_000
SNAPSHOTS_KEPT = 3


class ControllerNode:
    """One controller; `life` counts its starts."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.life = 0
        self.up = False
        self.paused = False
        self.wall_shift_ms = 0
        self.core: ControllerCore | None = None
        self.folder = Folder()
        self.snapshots: dict[int, bytes] = {}
        self._published_at_start = -1
        self._to_publish: deque[Outcome] = deque()
        self._wires: dict[int, Wire] = {}
        self._outbound: dict[str, Wire] = {}

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """As `controller_log.catch_up`: the newest snapshot that is not beyond what is published,
        then the log's tail.
        """
        self.life += 1
        self.up, self.paused = True, False
        self._published_at_start = self.cluster.checkers.published_offset
        self.folder = self._newest_snapshot()
        peers = {name: name for name in self.cluster.controller_names}
        config = CoreConfig(
            self.name,
            self.name,
            self.cluster.cluster_id,
            peers,
            settings={SETTING_DEDUPE_WINDOW: str(DEDUPE_WINDOW)},
        )
        self.core = ControllerCore(config, self.folder, self._ids())
        self._wires, self._outbound, self._to_publish = {}, {}, deque()
        self._caught_up = False
        self._catch_up_to = self.cluster.journal.end_offset()
        self.cluster.journal.reader(self, self.folder.next_offset, self._read)
        self._folded: list[Outcome] = []
        self._begin_when_caught_up()
        self._tick(self.life)

    def _newest_snapshot(self) -> Folder:
        """As `log.start`: the newest that is proven by what was published; without an own one,
        another controller's.
        """
        own = next(
            (
                one
                for offset in sorted(self.snapshots, reverse=True)
                if (one := self._proven(self.snapshots[offset]))
            ),
            None,
        )
        if own is not None:
            self.world.count("controller.from_snapshot")
            return own
        for peer in self.cluster.controllers:
            fetched = (
                self._proven(peer.snapshots[max(peer.snapshots)])
                if peer is not self and peer.up and peer.snapshots
                else None
            )
            if fetched is not None:
                self.world.count("controller.from_anothers_snapshot")
                return fetched
        return Folder()

    def _proven(self, data: bytes) -> Folder | None:
        folder = snapshot_codec.load(data)
        if folder.offset > self._published_at_start:
            return None
        why = snapshot_proof.doubt(
            folder, self.cluster.checkers.published_proofs.get(folder.offset)
        )
        if why is not None:
            self.world.count("snapshot.refused")
            self.world.note(f"{self.name} does not believe a snapshot: {why}")
        return folder if why is None else None

    def _keep_snapshot(self) -> None:
        folder = self.folder
        if has_state_digest(folder.offset):
            still = Folder(folder.state, folder.offset, folder.digest, folder.recent.copy())
            self.snapshots[folder.offset] = snapshot_codec.dump(still)
            for old in sorted(self.snapshots)[:-SNAPSHOTS_KEPT]:
                del self.snapshots[old]

    def forget_snapshots(self, first: int) -> None:
        """Those of records from there on: the log does not have them any more."""
        self.snapshots = {offset: data for offset, data in self.snapshots.items() if offset < first}

    def stop(self) -> None:
        self.up = False
        self.core = None
        self.cluster.network.node_died(self, silent=False)

    def _ids(self) -> Iterator[bytes]:
        while True:
            yield self.world.chance.getrandbits(128).to_bytes(16, "big")

    def _begin_when_caught_up(self) -> None:
        if not self._caught_up and self.folder.next_offset >= self._catch_up_to:
            self._caught_up = True
            assert self.core is not None
            unpublished = [
                one for one in self._folded if one.command_offset > self._published_at_start
            ]
            self._folded.clear()
            self.core.start(self.world.now_ms, self._wall(), unpublished)

    def _wall(self) -> int:
        return self.world.wall_ms + self.wall_shift_ms

    def _read(self, offset: int, data: bytes) -> None:
        applied: Applied = self.folder.apply(offset, data)
        self.cluster.checkers.applied(self, applied)
        self._keep_snapshot()
        if self._caught_up:
            assert self.core is not None
            self._perform(self.core.on_applied(applied, self.world.now_ms, self._wall()))
        else:
            self._folded.append(applied.outcome)
        self._begin_when_caught_up()

    def _tick(self, life: int) -> None:
        if self.life != life or not self.up:
            return
        if not self.paused and self._caught_up and self.core is not None:
            self._perform(self.core.tick(self.world.now_ms, self._wall()))
        self.world.after(TICK_MS, lambda: self._tick(life))

    # -- inbound -----------------------------------------------------------------------------------

    def accept(self, end: End) -> bool:
        wire = Wire(self.world, end, self._request, self._wire_closed)
        self._wires[wire.conn_id] = wire
        return True

    def _request(self, wire: Wire, request: RemotingCommand) -> None:
        if self.core is not None and self._caught_up:
            peer = f"{wire.end.peer.owner.name}:1"
            self._perform(
                self.core.on_request(wire.conn_id, peer, request, self.world.now_ms, self._wall())
            )
        elif not request.is_oneway:
            wire.send(not_leader(request))

    def _wire_closed(self, wire: Wire) -> None:
        if (
            self._wires.pop(wire.conn_id, None) is not None
            and self.up
            and self.core is not None
            and self._caught_up
        ):
            self._perform(self.core.on_connection_closed(wire.conn_id, self.world.now_ms))

    # -- effects -----------------------------------------------------------------------------------

    def _perform(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            getattr(self, "_do_" + type(effect).__name__)(effect)
            if not self.up:
                return

    def _later(self, call: Callable[[ControllerCore], list[fx.Effect]]) -> Callable[[], None]:
        """The answer to an effect reaches this life of this controller, or nobody; a paused one
        hears it later.
        """
        life = self.life

        def perform() -> None:
            if self.core is not None:
                self._perform(call(self.core))

        def run() -> None:
            if self.up and self.life == life:
                if self.paused:
                    wake(self.world, self, TICK_MS, perform)
                else:
                    perform()

        return run

    def _do_Append(self, effect: fx.Append) -> None:
        settled: list[bool] = []

        def result(offset: int | None) -> None:
            if not settled:
                settled.append(True)
                self._later(
                    lambda core: core.on_append_result(effect.command_id, offset, self.world.now_ms)
                )()

        self.cluster.journal.append(self, effect.data, result)
        self.world.after(APPEND_DEADLINE_MS, lambda: result(None))

    def _do_Reply(self, effect: fx.Reply) -> None:
        wire = self._wires.get(effect.conn_id)
        if wire is not None:
            wire.send(effect.response)

    def _do_NotifyRole(self, effect: fx.NotifyRole) -> None:
        def usual() -> None:
            self._with_wire(
                effect.address, lambda wire: wire.send(effect.command), lambda why: None
            )

        self.cluster.strays.carry(
            NOTICE, self, self.cluster.node_at(effect.address), effect.command, usual
        )

    def _do_TellPeer(self, effect: fx.TellPeer) -> None:
        def failed(why: str) -> None:
            self._later(
                lambda core: core.on_peer_closed(
                    effect.address, why == "refused", self.world.now_ms
                )
            )()

        self._with_wire(effect.address, lambda wire: wire.send(effect.command), failed)

    def _do_ForwardToLeader(self, effect: fx.ForwardToLeader) -> None:
        self._call(effect, lambda core: core.on_reply_from_leader)

    def _do_AskBroker(self, effect: fx.AskBroker) -> None:
        self._call(effect, lambda core: core.on_broker_answer)

    def _call(
        self,
        effect: fx.ForwardToLeader | fx.AskBroker,
        takes: Callable[
            [ControllerCore], Callable[[int, RemotingCommand | None, int], list[fx.Effect]]
        ],
    ) -> None:
        def answered(response: RemotingCommand | None) -> None:
            self._later(lambda core: takes(core)(effect.token, response, self.world.now_ms))()

        self._with_wire(
            effect.address,
            lambda wire: wire.call(effect.request, effect.timeout_ms, answered),
            lambda why: answered(None),
        )

    def _do_Probe(self, effect: fx.Probe) -> None:
        node = self.cluster.node_at(effect.address)
        cut = self.cluster.network.is_cut(self.name, node.name) or self.cluster.network.is_cut(
            node.name, self.name
        )
        result, delay_ms = ("timeout", 1_000) if cut else ("open" if node.up else "refused", 2)
        self.world.count(f"probe.{result}")
        self.world.after(
            delay_ms,
            self._later(
                lambda core: core.on_probe_result(
                    effect.address, result, self.world.now_ms, self._wall()
                )
            ),
        )

    def _do_AskEndOffset(self, effect: fx.AskEndOffset) -> None:
        journal = self.cluster.journal

        def answer() -> None:
            end = None if journal.stalled else journal.end_offset()
            self._later(lambda core: core.on_end_offset(effect.token, end))()

        self.world.after(self.world.chance.randint(0, 4), answer)

    def _do_AskLastPublished(self, effect: fx.AskLastPublished) -> None:
        published = (
            None
            if self.cluster.journal.outcomes_stalled
            else self.cluster.checkers.published_offset
        )
        self.world.after(
            2,
            self._later(
                lambda core: core.on_last_published(effect.token, published, self.world.now_ms)
            ),
        )

    def _do_Publish(self, effect: fx.Publish) -> None:
        """In order and without an end: the producer of outcomes never gives up, only a death drops
        the rest.
        """
        self._to_publish.append(effect.outcome)
        if len(self._to_publish) == 1:
            wake(self.world, self, 1, self._publish_next)

    def _publish_next(self) -> None:
        if self.cluster.journal.outcomes_stalled:
            self.world.count("outcome_log.late")
            wake(self.world, self, TICK_MS, self._publish_next)
            return
        outcome = self._to_publish.popleft()
        self.cluster.checkers.published(self, outcome)
        if self._to_publish:
            wake(self.world, self, self.world.between(0, 2), self._publish_next)
        offset = outcome.command_offset
        self.world.after(
            2, self._later(lambda core: core.on_publish_result(offset, True, self.world.now_ms))
        )

    def _do_CloseConnection(self, effect: fx.CloseConnection) -> None:
        wire = self._wires.get(effect.conn_id)
        if wire is not None:
            wire.close(effect.reason)

    def _do_Report(self, effect: fx.Report) -> None:
        """Nobody in here reads the facts."""

    def _do_Note(self, effect: fx.Note) -> None:
        self.world.note(f"{self.name}: {effect.text}")

    def _do_Halt(self, effect: fx.Halt) -> None:
        raise InvariantBroken(f"{self.name} halts: {effect.reason}")

    # -- outbound ----------------------------------------------------------------------------------

    def _with_wire(
        self, address: str, use: Callable[[Wire], None], failed: Callable[[str], None]
    ) -> None:
        wire = self._outbound.get(address)
        if wire is not None and wire.open:
            use(wire)
            return
        node = self.cluster.node_at(address)

        def opened(end: End) -> None:
            made = Wire(
                self.world,
                end,
                lambda wire, request: None,
                lambda wire: self._outbound_closed(address, wire),
            )
            self._outbound[address] = made
            use(made)

        self.cluster.network.connect(self, node, node.accept, opened, failed)

    def _outbound_closed(self, address: str, wire: Wire) -> None:
        if self._outbound.get(address) is wire:
            del self._outbound[address]
            if address in self.cluster.controller_names and self.up:
                self._later(lambda core: core.on_peer_closed(address, False, self.world.now_ms))()
