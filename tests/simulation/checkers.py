"""What must hold, watched from outside after every step.

Responsible for: the promises of DESIGN 4 as checks over all nodes at once.
Refuses to know: how any node reaches its state; it reads public attributes and disks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from immutables import Map

from brokers.ha.pace import SILENT_HEARTBEATS
from brokers.ha.slave_link import MASTER_BEGINS_LATER, SlaveState
from events.changes import BrokerIdApplied, BrokersCleaned, SetDoubted, SyncStateSetAltered
from events.commands import ElectMaster, RegisterBroker
from events.outcomes import LABEL_AT_RISK, LABEL_DESIGNATED, LABEL_REPEAT, LABEL_UNCLEAN
from processors.fold.state import BrokerSet, ControllerState, check_invariants
from tests.simulation.holders import Holders
from tests.simulation.ledger import Ledger
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from brokers.replica.effects import TruncateLog
    from events.outcomes import Outcome
    from processors.fold.folder import Applied
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.client_node import ClientNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode


UNDECIDED = (
    "UNREADABLE",
    "UNKNOWN_SCHEMA",
    "NOT_FORMED",
    "WRONG_CLUSTER",
    "STALE_TERM",
    "OUTSIDE_WINDOW",
    "COMMAND_ID_REUSED",
)
"""Refusals after which the same command may come again and be decided."""
PROGRESS_MIN = 20
DEDUPE_WINDOW = 100
"""Small, so that a run reaches commands that come too late to be recognised."""
WITHOUT_TERM = ("ClusterFormed", "ClaimLeadership")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A message that a client was told is safe."""

    epoch: int
    offset: int
    data: bytes
    at_ms: int


class Checkers:
    """All checks of one world.

    `lenient`: brokers in count mode promise less (S2); what was acknowledged may be gone then. One
    mastership per epoch, growing epochs and equal logs in the end are promised all the same.
    Elsewhere a loss is excused message by message: when every holder of it lost it by an accident,
    or an operator chose an unclean master.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.acked: list[Acknowledged] = []
        self.ledger = Ledger(cluster)
        self.holders = Holders(cluster)
        self.lenient = cluster.shape.count_mode
        self._unclean_choice = -1
        self.published_offset = -1
        # behind the last decision about who has which id, and about what is in doubt
        self.ids_end = 0
        self.published_proofs: dict[int, Outcome] = {}
        self._digests: dict[int, bytes] = {}
        self._masters: dict[int, tuple[str, int]] = {}
        self._newest_master: tuple[int, BrokerNode] | None = None
        self._epochs_of: dict[str, int] = {}
        self._compared: dict[tuple[str, int, str, int], int] = {}
        self._moved: dict[str, int] = {}
        self._read: dict[int, bytes] = {}
        self._confirmed_by: dict[str, int] = {}
        self._set_epochs = (0, 0)
        self._first: dict[bytes, tuple[int, bool, int]] = {}
        self._known_sets: Map[str, BrokerSet] = Map()
        self._log_offset = -1
        self._left_silent: set[tuple[str, int, int]] = set()

    # -- controllers -------------------------------------------------------------------------------

    def applied(self, node: ControllerNode, applied: Applied) -> None:
        """Equal digest at equal offset everywhere; every state keeps its invariants; epochs only
        grow.
        """
        outcome = applied.outcome
        known = self._digests.setdefault(applied.offset, outcome.digest)
        if known != outcome.digest:
            raise InvariantBroken(
                f"{node.name} disagrees about offset {applied.offset}: another digest"
            )
        if applied.offset <= self._log_offset:
            return
        self._log_offset = applied.offset
        if any(
            isinstance(change, BrokerIdApplied | BrokersCleaned | SetDoubted)
            for change in applied.outcome.changes
        ):
            self.ids_end = applied.offset + 1
        self._count(applied)
        self._decided_once(applied)
        self._found_as_expected(applied)
        self._left_at_once(applied, node)
        self._known_sets = node.folder.state.sets
        self._joined_whole(outcome)
        self._awaited(node.folder.state.sets.get(self.cluster.set_name))
        problems = check_invariants(node.folder.state)
        if problems:
            raise InvariantBroken(f"offset {applied.offset}: {problems}")
        broker_set = node.folder.state.sets.get(self.cluster.set_name)
        if broker_set is not None:
            self._cleaned(outcome)
            if (
                LABEL_AT_RISK in outcome.labels
                and outcome.accepted
                and outcome.broker_name == self.cluster.set_name
            ):
                self._elected_at_risk(outcome, broker_set.master_epoch)
            epochs = (broker_set.master_epoch, broker_set.sync_state_set_epoch)
            if epochs[0] < self._set_epochs[0] or epochs[1] < self._set_epochs[1]:
                raise InvariantBroken(
                    f"offset {applied.offset}: epochs fell from {self._set_epochs} to {epochs}"
                )
            self._set_epochs = epochs

    def log_was_cut(self, end: int, state: ControllerState) -> None:
        """The log ends at `end` now, with that state: nothing behind was ever said. Epochs go up
        again before anybody leads.
        """
        self._digests = {offset: digest for offset, digest in self._digests.items() if offset < end}
        self.published_proofs = {
            offset: proof for offset, proof in self.published_proofs.items() if offset < end
        }
        self._first, self._set_epochs, self._known_sets = {}, (0, 0), state.sets
        self._log_offset, self.published_offset = end - 1, min(self.published_offset, end - 1)

    def _cleaned(self, outcome: Outcome) -> None:
        """What an operator has cleaned away is no holder any more, whatever lies on its disk."""
        gone = {
            one
            for change in outcome.changes
            if isinstance(change, BrokersCleaned)
            for one in change.broker_ids
        }
        for node in self.cluster.brokers:
            if (
                outcome.broker_name == self.cluster.set_name
                and node.disk.identity is not None
                and node.disk.identity.broker_id in gone
            ):
                self.world.count("replica.cleaned")
                self.holders.untrusted(node, -1)

    def _elected_at_risk(self, outcome: Outcome, epoch: int) -> None:
        """The label excuses nothing; an operator who chose so does (what the chosen one lacks is
        given up when it leads).
        """
        self.world.count("set.elected_at_risk")
        if LABEL_REPEAT not in outcome.labels and {LABEL_DESIGNATED, LABEL_UNCLEAN} & set(
            outcome.labels
        ):
            self._unclean_choice = epoch

    def _decided_once(self, applied: Applied) -> None:
        """D5, D6: one decision per command id, by the leader of the term; repeats get the first
        outcome.
        """
        outcome, record = applied.outcome, applied.record
        if record is None or outcome.refusal in UNDECIDED:
            return
        result = (outcome.accepted, outcome.code)
        if LABEL_REPEAT in outcome.labels:
            if self._first.get(outcome.command_id, (0, *result))[1:] != result:
                raise InvariantBroken(
                    f"offset {applied.offset}: the repeat of a command has another outcome"
                )
            return
        before = self._first.get(outcome.command_id)
        if before is not None and before[0] >= applied.offset - DEDUPE_WINDOW:
            raise InvariantBroken(
                f"the command decided at offset {before[0]} is decided again at {applied.offset}"
            )
        self._first[outcome.command_id] = (applied.offset, *result)
        if outcome.kind not in WITHOUT_TERM and record.envelope.term != outcome.term:
            raise InvariantBroken(
                f"offset {applied.offset}: term {record.envelope.term} decides in term "
                f"{outcome.term}"
            )

    def _found_as_expected(self, applied: Applied) -> None:
        """D1: compare and set; and whoever is elected stands on evidence of its present start
        (S5).
        """
        record, outcome = applied.record, applied.outcome
        if (
            not isinstance(record, ElectMaster)
            or not outcome.changes
            or LABEL_REPEAT in outcome.labels
        ):
            return
        known = self._known_sets.get(record.broker_name)
        expected = (record.expected_master_epoch, record.expected_set_epoch)
        found = (
            (known.master_epoch, known.sync_state_set_epoch) if known is not None else (None, None)
        )
        if any(
            wanted is not None and wanted != there
            for wanted, there in zip(expected, found, strict=True)
        ):
            raise InvariantBroken(
                f"offset {applied.offset}: an election for epochs {expected} found {found} and "
                "was held"
            )
        incarnations = {
            row.broker_id: row.incarnation for row in record.evidence if row.reason == "heartbeat"
        }
        for one in outcome.candidates:
            registered = known.replica(one.broker_id) if known is not None else None
            if not one.chosen or one.broker_id == record.broker_id or registered is None:
                # who asks is there, and a retried question may be older than its present start
                continue
            if incarnations.get(one.broker_id, registered.incarnation) != registered.incarnation:
                raise InvariantBroken(
                    f"offset {applied.offset}: broker {one.broker_id} is elected on heartbeats of "
                    "a former life"
                )

    def _left_at_once(self, applied: Applied, node: ControllerNode) -> None:
        """S5: an unclean start is out of the set from its registration on."""
        record = applied.record
        if (
            not isinstance(record, RegisterBroker)
            or record.clean is not False
            or not applied.outcome.changes
        ):
            return
        before = self._known_sets.get(record.broker_name)
        replica = before.replica(record.broker_id) if before is not None else None
        if replica is None or replica.incarnation == record.incarnation:
            return
        if record.broker_id in node.folder.state.sets[record.broker_name].sync_state_set:
            raise InvariantBroken(
                f"offset {applied.offset}: broker {record.broker_id} started unclean and is still "
                "a member"
            )

    def _joined_whole(self, outcome: Outcome) -> None:
        """S4: whoever joins holds everything that was acknowledged."""
        joined = [
            one
            for change in outcome.changes
            if isinstance(change, SyncStateSetAltered)
            for one in change.joined
        ]
        if not joined or self.lenient or outcome.broker_name != self.cluster.set_name:
            return
        for node in self.cluster.brokers:
            disk = node.disk
            if disk.identity is None or disk.distrusted or disk.identity.broker_id not in joined:
                continue
            for message in self.acked:
                if not self._holds(node, message) and not self._excused(message):
                    raise InvariantBroken(
                        f"{node.name} joins the set without the message at {message.offset}"
                    )

    def _awaited(self, known: BrokerSet | None) -> None:
        """S3: whoever the log calls a member is waited for by the master of that epoch."""
        for node in self.cluster.brokers:
            role = node.core._roles.master if node.core is not None else None
            if (
                role is None
                or known is None
                or known.master_epoch != role.epoch
                or known.master_broker_id != node.broker_id
            ):
                continue
            if not set(known.sync_state_set) <= role.sync.union:
                raise InvariantBroken(
                    f"the log calls {known.sync_state_set} the set, {node.name} waits for "
                    f"{sorted(role.sync.union)} only"
                )

    def _count(self, applied: Applied) -> None:
        outcome = applied.outcome
        self.world.count(f"outcome.{outcome.kind}.{'accepted' if outcome.accepted else 'refused'}")
        if outcome.refusal is not None:
            self.world.count(f"refusal.{outcome.refusal}")
        for label in outcome.labels:
            self.world.count(f"label.{label}")
        if outcome.kind == "ElectMaster":
            self.world.count(f"election.{outcome.cause}")
            self.world.count(
                "election.waits", any(one.verdict == "WAITING" for one in outcome.candidates)
            )
        for change in outcome.changes:
            if (
                isinstance(change, SyncStateSetAltered)
                and change.left
                and outcome.broker_name == self.cluster.set_name
            ):
                self.world.count(f"left.{change.reason}")
        self.world.note(
            f"log {applied.offset}: {outcome.kind} {'ok' if outcome.accepted else outcome.refusal} "
            f"term {outcome.term} by {outcome.cause} {[type(c).__name__ for c in outcome.changes]}"
        )

    def published(self, node: ControllerNode, outcome: Outcome) -> None:
        """Outcomes are published without a gap, and say what every fold says (D7)."""
        if outcome.command_offset > self.published_offset + 1:
            raise InvariantBroken(
                f"{node.name} published {outcome.command_offset} after {self.published_offset}"
            )
        if self._digests.get(outcome.command_offset, outcome.digest) != outcome.digest:
            raise InvariantBroken(
                f"{node.name} published another digest at {outcome.command_offset}"
            )
        self.published_offset = max(self.published_offset, outcome.command_offset)
        if outcome.state_digest:
            self.published_proofs.setdefault(outcome.command_offset, outcome)

    # -- replicas ----------------------------------------------------------------------------------

    def acknowledged(
        self, node: BrokerNode, epoch: int, offset: int, data: bytes, *, durable: bool = True
    ) -> None:
        """No two masters acknowledge: whoever does, the newest mastership must hold the message."""
        if (
            durable
            and self.cluster.shape.sync_flush
            and not node.disk.is_stable(offset, offset + len(data))
        ):
            raise InvariantBroken(
                f"{node.name} acknowledges offset {offset} as durable, and a power loss would "
                "take it"
            )
        self.world.count("message.acknowledged")
        known = self._masters.get(epoch)
        if known != (node.name, node.life):
            raise InvariantBroken(
                f"{node.name} acknowledges in epoch {epoch}, whose master is {known}"
            )
        message = Acknowledged(epoch, offset, data, self.world.now_ms)
        self._held_by_all(node, message)
        if self._newest_master is not None and not self.lenient:
            newest_epoch, master = self._newest_master
            # an operator gave up what it has
            chosen = newest_epoch == self._unclean_choice or self._was_cleaned(node)
            if newest_epoch > epoch and not chosen and not self._holds(master, message):
                raise InvariantBroken(
                    f"{node.name} acknowledges offset {offset} in epoch {epoch}, "
                    f"but {master.name} leads in epoch {newest_epoch} without it"
                )
        self.acked.append(message)
        self.ledger.acknowledged(data)
        self.holders.promised(offset, data)

    def read(self, client: str, slot: int, data: bytes) -> None:
        """What was read once is what everybody reads there, from whatever master (S1, S10)."""
        self.world.count("message.read")
        known = self._read.setdefault(slot, data)
        if known != data and not self.lenient:
            if not self.holders.excuses:
                raise InvariantBroken(
                    f"{client} reads another message in slot {slot} than was read there before"
                )
            self._read[slot] = data
        if known is data or known != data:
            self.holders.shown(data)

    def told(self, client: ClientNode, body: bytes) -> None:
        """A client was told that its message is stored."""
        self.ledger.told(client, body)

    def damaged(self, node: BrokerNode, slot: int) -> None:
        """A bit of this message has just turned over on the disk: it must not be served."""
        if not node.disk.served(slot)[1]:
            raise InvariantBroken(f"{node.name} serves slot {slot} with a bit turned over")

    def _held_by_all(self, master: BrokerNode, message: Acknowledged) -> None:
        """S1: every member that lost nothing since has the bytes, also one that is down by now."""
        assert master.core is not None
        if self.lenient:
            return
        for node in self.cluster.brokers:
            trusted = node.disk.identity is not None and not node.disk.distrusted
            if (
                trusted
                and node.disk.identity.broker_id in master.core.sync_state_set
                and not self._holds(node, message)
            ):
                raise InvariantBroken(
                    f"{master.name} acknowledges offset {message.offset}, and {node.name}, a "
                    "member, lacks it"
                )

    def _holds(self, node: BrokerNode, message: Acknowledged) -> bool:
        """It is there, or it was old enough to go."""
        if message.offset < node.disk.log_min <= self.ledger.gone_below:
            return True
        return node.disk.log[message.offset : message.offset + len(message.data)] == message.data

    def master_established(self, node: BrokerNode) -> None:
        """One mastership per epoch (S6), its entry durable (S8), with everything acknowledged in
        older ones.
        """
        assert node.core is not None
        epoch, mastership = node.core.master_epoch, (node.name, node.life)
        known = self._masters.setdefault(epoch, mastership)
        if known != mastership:
            raise InvariantBroken(f"{known} and {mastership} are both master in epoch {epoch}")
        if not node.disk.epochs.rstrip().rpartition("\n")[2].startswith(f"{epoch}-"):
            raise InvariantBroken(f"{node.name} leads in epoch {epoch} before its entry is durable")
        if self._newest_master is None or epoch > self._newest_master[0]:
            self._newest_master = (epoch, node)
        if self.lenient:
            return
        if epoch == self._unclean_choice:
            self.holders.chosen_by_an_operator(node)
        for message in self.acked:
            if (
                message.epoch < epoch
                and not self._holds(node, message)
                and not self._excused(message)
            ):
                raise InvariantBroken(
                    f"{node.name} leads in epoch {epoch} without the message at {message.offset}, "
                    f"acknowledged in epoch {message.epoch}; intact on "
                    f"{self.holders.of(message.offset, message.data)}"
                )

    def _excused(self, message: Acknowledged) -> bool:
        """Every holder of it lost it by an accident."""
        return self.holders.excuse(message.offset, message.data)

    def lost_by_accident(self, node: BrokerNode) -> None:
        """A disk or a machine's power has just gone, or an older copy of the disk came back."""
        self.holders.took(node)
        self._confirmed_by[node.name] = min(
            self._confirmed_by.get(node.name, 0), len(node.disk.log)
        )

    def opened(self, node: BrokerNode) -> None:
        """S5: a start that vouches for its log has all that its former life knew to be
        confirmed.
        """
        known = self._confirmed_by.get(node.name, 0)
        if not node.clean:
            self._confirmed_by[node.name] = min(known, len(node.disk.log))
            self.holders.took(node)  # what lay behind a hole is cut now
        elif len(node.disk.log) < known and not self.lenient:
            raise InvariantBroken(
                f"{node.name} vouches for a log that ends at {len(node.disk.log)}, {known} was "
                "confirmed"
            )

    def truncating(self, node: BrokerNode, effect: TruncateLog) -> None:
        """A replica that vouches for its log never cuts below what it knows to be confirmed, unless
        all of it is deleted elsewhere.
        """
        assert node.core is not None
        to_offset = effect.to_offset
        # behind it may lie what was never acknowledged, of an epoch that is over
        confirmed = node.disk.dispatched_offset
        anew = effect.reason == MASTER_BEGINS_LATER and confirmed <= self.ledger.gone_below
        self.world.count("slave.begins_anew", anew)
        self._confirmed_by[node.name] = min(to_offset, self._confirmed_by.get(node.name, 0))
        if node.disk.distrusted and node.disk.trusted_end is not None:
            self.holders.untrusted(node, max(to_offset, node.disk.trusted_end))
        if node.core.clean and not self.lenient and to_offset < confirmed and not anew:
            raise InvariantBroken(
                f"{node.name} cuts to {to_offset}, its messages below {confirmed} are confirmed"
            )
        for key in self._compared:
            if node.name in key:
                self._compared[key] = min(self._compared[key], to_offset)

    def replica_moved(self, node: BrokerNode) -> None:
        """Epochs only grow; messages below both confirm offsets are equal, byte for byte."""
        disk = node.disk
        before = self._epochs_of.get(node.name, 0)
        if disk.epoch_seen != before:
            if disk.epoch_seen < before:
                raise InvariantBroken(
                    f"{node.name} forgot epoch {before}, its disk knows {disk.epoch_seen}"
                )
            self._epochs_of[node.name] = disk.epoch_seen
        core = node.core
        if core is not None and core.role.value != "FENCED" and core.master_epoch < disk.epoch_seen:
            raise InvariantBroken(
                f"{node.name} acts in epoch {core.master_epoch}, though it knows of "
                f"{disk.epoch_seen}"
            )
        if disk.dispatched_offset == self._moved.get(node.name) or self.lenient:
            return
        self._moved[node.name] = self._confirmed_by[node.name] = disk.dispatched_offset
        for other in self.cluster.brokers:
            if other is not node and other.core is not None:
                self._compare(node, other)

    def link_down(self, node: BrokerNode, reason: str) -> None:
        """A slave gave up a link for silence: it is more patient with that master from now on."""
        if reason.startswith("nothing read for"):
            self.world.count("link.left_silent")
            assert node.core is not None
            self._left_silent.add((node.name, node.life, node.core.master_epoch))

    def ticked(self, node: BrokerNode) -> None:
        """A slave leaves a master that was silent for three heartbeats, the first time without
        mercy.
        """
        core = node.core
        role = core._roles.slave if core is not None else None
        if (
            core is None
            or role is None
            or role.link is None
            or role.link.state is not SlaveState.TRANSFER
        ):
            return
        silent_ms = self.world.now_ms - role.link.last_read_ms
        if (
            silent_ms > SILENT_HEARTBEATS * core.config.ha_heartbeat_ms
            and (node.name, node.life, core.master_epoch) not in self._left_silent
        ):
            raise InvariantBroken(
                f"{node.name} waits for {silent_ms} ms on a link that carries nothing"
            )

    def forget_epochs(self, name: str) -> None:
        """A wiped disk is another replica's life."""
        self._epochs_of.pop(name, None)
        self._confirmed_by.pop(name, None)

    def _compare(self, one: BrokerNode, other: BrokerNode) -> None:
        assert one.core is not None and other.core is not None
        if not (one.core.clean and other.core.clean):
            return
        limit = min(one.disk.dispatched_offset, other.disk.dispatched_offset)
        first, second = (one, other) if one.name < other.name else (other, one)
        key = (first.name, first.life, second.name, second.life)
        done = self._compared.get(key, 0)
        if limit > done:
            done = max(done, one.disk.log_min, other.disk.log_min)
            if one.disk.log[done:limit] != other.disk.log[done:limit] and not self._was_cleaned(
                one, other
            ):
                raise InvariantBroken(
                    f"{one.name} and {other.name} differ between {done} and {limit}, both confirmed"
                )
            self._compared[key] = limit

    def _was_cleaned(self, *nodes: BrokerNode) -> bool:
        """Whether the log has forgotten one of them, whose process lives on with what it had."""
        known = max(
            self.cluster.controllers, key=lambda node: node.folder.offset
        ).folder.state.sets.get(self.cluster.set_name)
        return known is not None and any(
            node.broker_id is not None and known.replica(node.broker_id) is None for node in nodes
        )

    def went_on(self, acked: int, for_ms: int) -> None:
        """S16: with two linked replicas of three, sends were answered in the meantime."""
        if len(self.acked) < acked + PROGRESS_MIN:
            raise InvariantBroken(
                f"two replicas of three were there for {for_ms} ms, and {len(self.acked) - acked} "
                "messages were acknowledged"
            )

    # -- end ---------------------------------------------------------------------------------------

    def healed(self) -> str | None:
        """None when the cluster is whole again; else what is missing."""
        leaders = [
            node
            for node in self.cluster.controllers
            if node.up and node.core is not None and node.core.is_active
        ]
        if len(leaders) != 1:
            return f"{len(leaders)} active controllers"
        masters = [
            node
            for node in self.cluster.brokers
            if node.core is not None and node.core.role.value == "MASTER"
        ]
        if len(masters) != 1:
            return f"{len(masters)} masters"
        master = masters[0].core
        assert master is not None
        if not masters[0].service.takes_writes:
            return f"{masters[0].name} holds writes back"
        # An election at risk may take a learner; it stays a member as long as it leads.
        learning = {node.broker_id for node in self.cluster.brokers if node.settings.is_learner}
        registered = sorted(
            node.broker_id or -1 for node in self.cluster.brokers if not node.settings.is_learner
        )
        if [one for one in master.sync_state_set if one not in learning] != registered:
            return f"SyncStateSet is {master.sync_state_set}, replicas are {registered}"
        if any(len(node.disk.log) != len(masters[0].disk.log) for node in self.cluster.brokers):
            return "logs have different lengths"
        return None

    def final(self) -> None:
        """After healing: equal logs, and in them everything acknowledged."""
        first = self.cluster.brokers[0]
        for node in self.cluster.brokers[1:]:
            start = max(node.disk.log_min, first.disk.log_min)
            if node.disk.log[start:] != first.disk.log[start:]:
                raise InvariantBroken(f"{node.name} and {first.name} differ at the end")
        for node in self.cluster.brokers:
            self._queued(node)
        self.ledger.stored_once(first)
        lost = [message for message in self.acked if not self._holds(first, message)]
        owed = [message for message in lost if not self._excused(message)]
        if owed and not self.lenient:
            one = owed[0]
            holders = self.holders.of(one.offset, one.data)
            raise InvariantBroken(
                f"message at {one.offset} of epoch {one.epoch} is lost, and {len(owed) - 1} more; "
                f"intact holders: {holders}"
            )
        if not self.cluster.shape.count_mode:
            self.world.count("message.lost_excused", len(lost))
        if self.cluster.shape.count_mode:
            self._count_mode(lost)

    def _count_mode(self, lost: list[Acknowledged]) -> None:
        """What is not promised is told: how much was lost, and how long the windows were that it
        came from.
        """
        self.world.count("count_mode.worlds")
        self.world.count("count_mode.acknowledged", len(self.acked))
        if lost:
            runs = [
                list(run)
                for is_lost, run in groupby(self.acked, lambda message: message in lost)
                if is_lost
            ]
            window_ms = sum(run[-1].at_ms - run[0].at_ms for run in runs)
            self.world.count("count_mode.worlds_that_lost")
            self.world.count("count_mode.lost", len(lost))
            self.world.count("count_mode.lost_window_ms", window_ms)
            self.world.note(
                f"count mode: {len(lost)} of {len(self.acked)} acknowledged messages are lost, "
                f"from {window_ms} ms"
            )

    def _queued(self, node: BrokerNode) -> None:
        """Every message below the confirm offset has its place in the queue, in order, and is a
        good one.
        """
        slots = {node.disk.place(slot).offset for slot in node.disk.slots()}
        for slot in node.disk.slots():
            problem = node.disk.served(slot)[1]
            if problem:
                raise InvariantBroken(f"{node.name}: slot {slot}: {problem}")
        assert node.core is not None
        known = len(node.disk.log) if node.core.is_master else node.disk.dispatched_offset
        there = [
            one.offset
            for one in self.acked
            if node.disk.log_min <= one.offset
            and one.offset + len(one.data) <= known
            and self._holds(node, one)
        ]
        missing = [offset for offset in there if offset not in slots]
        if missing and not self.lenient:
            raise InvariantBroken(
                f"{node.name}: acknowledged messages are in no queue: {missing[:3]}"
            )
