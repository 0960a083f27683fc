"""What must hold, watched from outside after every step of every process.

Responsible for: the promises of design sections 3 and 4 that controllers make, as checks over all
of them at once.
Refuses to know: how a controller reaches its state; it reads what they apply, append, answer and
publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from events.changes import BrokerIdApplied, BrokersCleaned, MasterElected, RulesActivated
from events.codec import decode
from events.commands import ElectMaster
from events.outcomes import LABEL_AT_RISK, LABEL_DESIGNATED, LABEL_REPEAT, LABEL_UNCLEAN
from processors.controller.context import REQUEST_DEADLINE_MS
from processors.fold.rules import SUPPORTED_RULES
from processors.fold.state import BrokerSet, ControllerState, check_invariants
from tests.simulation.control.calls import Calls
from tests.simulation.control.hearing import Hearing
from tests.simulation.control.history import shared
from tests.simulation.control.readings import Readings
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from events.outcomes import Outcome
    from processors.fold.folder import Applied, Folder
    from tests.simulation.control.brokers import BrokerNode
    from tests.simulation.control.controllers import ControllerNode
    from tests.simulation.control.lines import Line
    from tests.simulation.control.realm import Realm
    from tests.simulation.control.replicas import Mastership, ReplicaSet

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
WITHOUT_TERM = ("ClusterFormed", "ClaimLeadership")
ANSWER_SLACK_MS = 200
DEDUPE_LEAST = 40
"""No smaller window is ever set; a retry from beyond the window is another command."""
BY_SILENCE = ("master_heartbeat_expired", "master_never_seen")


class Promises:
    """All checks of one world."""

    def __init__(self, realm: Realm) -> None:
        self.realm, self.world = realm, realm.world
        self.readings = Readings(realm.world)
        self.hearing = Hearing(realm.world)
        self.calls = Calls()
        self.published_offset = -1
        self.log_offset = -1
        self._digests: dict[int, bytes] = {}
        self._states: dict[int, ControllerState] = {}
        self._first: dict[bytes, tuple[int, bool, int]] = {}
        self._codes: dict[tuple[str, int], str] = {}
        self._owners: dict[tuple[str, int], str] = {}
        self._marks: dict[str, tuple[int, int, int]] = {}
        self._masters: dict[tuple[str, int], tuple[str, int]] = {}
        self._at_risk: set[tuple[str, int]] = set()
        self._elects: dict[bytes, tuple[str, int]] = {}
        self._elected_by: dict[tuple[str, int], tuple[str, int]] = {}

    # -- the fold ----------------------------------------------------------------------------------

    def applied(self, node: ControllerNode, before: ControllerState, applied: Applied) -> None:
        """Equal state and digest at equal offset on all; what is new in the log keeps every rule of
        DESIGN 4.
        """
        offset, outcome, state = applied.offset, applied.outcome, node.folder.state
        if self._digests.setdefault(offset, outcome.digest) != outcome.digest:
            raise InvariantBroken(f"{node.name} disagrees about offset {offset}: another digest")
        if self._states.setdefault(offset, state) != state:
            raise InvariantBroken(f"{node.name} disagrees about offset {offset}: another state")
        if offset <= self.log_offset:
            return
        self.log_offset = offset
        self._count(applied)
        self._decided_once(applied)
        self._claimed_as_expected(before, state, applied)
        self._elected_alive(applied)
        self.calls.decided(applied)
        problems = check_invariants(state)
        if problems:
            raise InvariantBroken(f"offset {offset}: {problems}")
        name = outcome.broker_name
        if name is not None and (known := state.sets.get(name)) is not None and outcome.changes:
            self._ids_and_epochs(offset, known, outcome)
            self._members_hold_everything(offset, known, outcome)
        for change in outcome.changes:
            if isinstance(change, RulesActivated):
                self._all_can_follow(offset, change)

    def loaded(self, node: ControllerNode, folder: Folder) -> None:
        """A snapshot is what every fold has at its offset, or it must not be used."""
        known = self._states.get(folder.offset)
        if known is not None and (
            known != folder.state or self._digests[folder.offset] != folder.digest
        ):
            raise InvariantBroken(
                f"{node.name} starts from a snapshot that is not the state at offset "
                f"{folder.offset}"
            )

    def _decided_once(self, applied: Applied) -> None:
        """D5, D6: one decision per command id, by the leader of the term; repeats get the first
        outcome.
        """
        outcome, record, offset = applied.outcome, applied.record, applied.offset
        if record is None or outcome.refusal in UNDECIDED:
            return
        result = (outcome.accepted, outcome.code)
        before = self._first.get(outcome.command_id)
        if LABEL_REPEAT in outcome.labels:
            if before is not None and before[1:] != result:
                raise InvariantBroken(
                    f"offset {offset}: the repeat of a command has another outcome"
                )
            return
        if before is not None and before[0] >= offset - DEDUPE_LEAST:
            raise InvariantBroken(
                f"the command decided at offset {before[0]} is decided again at {offset}"
            )
        self._first[outcome.command_id] = (offset, *result)
        if outcome.kind not in WITHOUT_TERM and record.envelope.term != outcome.term:
            raise InvariantBroken(
                f"offset {offset}: term {record.envelope.term} decides in term {outcome.term}"
            )

    def _claimed_as_expected(
        self, before: ControllerState, state: ControllerState, applied: Applied
    ) -> None:
        """D6: a term follows the one its claimant expected, and terms never fall."""
        if state.term == before.term:
            return
        expected = getattr(applied.record, "expected_term", None)
        if expected != before.term or state.term != before.term + 1:
            raise InvariantBroken(
                f"offset {applied.offset}: a claim that expected term {expected} made "
                f"{state.term} of {before.term}"
            )

    def _elected_alive(self, applied: Applied) -> None:
        """D8: whoever is elected was alive as its issuer saw it, in its present start (S5), or asks
        itself.
        """
        record, outcome = applied.record, applied.outcome
        if (
            not isinstance(record, ElectMaster)
            or not outcome.changes
            or LABEL_REPEAT in outcome.labels
        ):
            return
        alive = {row.broker_id for row in record.evidence if row.alive}
        chosen = next((one.broker_id for one in outcome.candidates if one.chosen), None)
        if (
            chosen is not None
            and chosen not in alive
            and (record.designate or chosen != record.broker_id)
        ):
            raise InvariantBroken(
                f"offset {applied.offset}: {record.broker_name} gets {chosen} as master, alive "
                f"are {sorted(alive)}"
            )

    def _ids_and_epochs(self, offset: int, known: BrokerSet, outcome: Outcome) -> None:
        """S7, S9: ids are given once, epochs and the next id never fall, also over a tombstone."""
        marks = (known.next_broker_id, known.master_epoch, known.sync_state_set_epoch)
        before = self._marks.get(known.broker_name, (0, 0, 0))
        if any(now < then for now, then in zip(marks, before, strict=True)):
            raise InvariantBroken(
                f"offset {offset}: (next id, epochs) of {known.broker_name} fell from {before} to "
                f"{marks}"
            )
        self._marks[known.broker_name] = marks
        for change in outcome.changes:
            if isinstance(change, BrokerIdApplied):
                key = known.broker_name, change.broker_id
                if (
                    self._codes.setdefault(key, change.register_check_code)
                    != change.register_check_code
                ):
                    raise InvariantBroken(f"offset {offset}: id {key} is given a second time")

    def _members_hold_everything(self, offset: int, known: BrokerSet, outcome: Outcome) -> None:
        """S1, S4, S5, S7: members hold what was acknowledged; whoever is elected is above
        everything reported.
        """
        replicas = next((one for one in self.realm.sets if one.name == known.broker_name), None)
        if replicas is None:
            return
        self._chosen_at_risk(replicas, known, outcome)
        elected = [change for change in outcome.changes if isinstance(change, MasterElected)]
        for change in elected:
            if outcome.command_id in self._elects:
                self._elected_by[replicas.name, change.master_epoch] = self._elects[
                    outcome.command_id
                ]
        for broker in replicas.brokers:
            registered = None if broker.broker_id is None else known.replica(broker.broker_id)
            for change in elected:
                if broker.highest_epoch >= change.master_epoch:
                    raise InvariantBroken(
                        f"offset {offset}: epoch {change.master_epoch} is not above "
                        f"{broker.highest_epoch} of {broker.name}"
                    )
            if (
                registered is None
                or broker.broker_id not in known.sync_state_set
                or replicas.retiring
            ):
                continue
            if broker.unclean and (broker.java or registered.incarnation != broker.incarnation):
                # nobody can know yet; its registration will say so, or a Java broker's heartbeat
                continue
            lacks = replicas.intact.lacks(broker)
            if lacks is not None:
                raise InvariantBroken(
                    f"offset {offset}: {broker.name} is a member of {known.sync_state_set} and "
                    f"lacks {lacks}"
                )

    def _chosen_at_risk(self, replicas: ReplicaSet, known: BrokerSet, outcome: Outcome) -> None:
        """Which loss an operator asked for, and what is nobody's to hold any more (before rules 3
        the election itself).
        """
        for change in outcome.changes:
            if isinstance(change, BrokersCleaned):
                for broker in replicas.brokers:
                    if broker.broker_id in change.broker_ids:
                        replicas.intact.given_up(broker)
        if LABEL_AT_RISK not in outcome.labels or not outcome.accepted:
            return
        self.world.count("set.at_risk")
        self._at_risk.add((replicas.name, known.master_epoch))
        chosen = next(
            (one for one in replicas.brokers if one.broker_id == known.master_broker_id), None
        )
        is_old = self.realm.newest_state().rules_version < max(SUPPORTED_RULES)
        if is_old or LABEL_UNCLEAN in outcome.labels or LABEL_DESIGNATED in outcome.labels:
            replicas.intact.chosen_by_an_operator(chosen, "old_rules" if is_old else "operator")

    def _all_can_follow(self, offset: int, change: RulesActivated) -> None:
        for node in self.realm.controllers:
            if change.rules_version not in node.rules:
                raise InvariantBroken(
                    f"offset {offset}: rules {change.rules_version} are active, {node.name} has "
                    f"{node.rules}"
                )

    def refused_to_go_on(self, node: ControllerNode) -> None:
        """D3: only software that lacks the active rules ends."""
        # As anybody ever folded it: it may be the last one, and has just come back with less.
        newest = self._states.get(self.log_offset, self.realm.newest_state())
        if newest.rules_version in node.rules:
            raise InvariantBroken(f"{node.name} ends although it has the rules")

    def _count(self, applied: Applied) -> None:
        outcome = applied.outcome
        self.world.count(f"outcome.{outcome.kind}.{'accepted' if outcome.accepted else 'refused'}")
        if outcome.refusal is not None:
            self.world.count(f"refusal.{outcome.refusal}")
        for label in outcome.labels:
            self.world.count(f"label.{label}")
        if outcome.kind in ("ElectMaster", "ClaimLeadership"):
            self.world.count(
                f"{outcome.kind}.{outcome.cause}.{'accepted' if outcome.accepted else 'refused'}"
            )
        issuer = applied.record.envelope.issuer if applied.record is not None else "?"
        self.world.note(
            f"log {applied.offset}: {outcome.kind} {outcome.broker_name or ''} "
            f"{'ok' if outcome.accepted else outcome.refusal} term {outcome.term} by {issuer}, "
            f"{outcome.cause} {[type(c).__name__ for c in outcome.changes]}"
        )

    # -- what a controller does --------------------------------------------------------------------

    def appending(self, node: ControllerNode, data: bytes) -> None:
        """D8: no election by silence while half the world is silent to its issuer."""
        record = decode(data)
        if not isinstance(record, ElectMaster):
            return
        self._elects.setdefault(record.envelope.command_id, (node.name, node.life))
        if record.envelope.cause in BY_SILENCE:
            self.hearing.electing(node, record)

    def answering(self, node: ControllerNode, line: Line, response: RemotingCommand) -> None:
        """Each two-way request gets one answer, a one-way request none; what it proves is stamped
        on it.
        """
        owed = node.owed.pop((line.number, response.opaque), None)
        if owed is None:
            if line.open and line.alive(line.other(node)):
                raise InvariantBroken(
                    f"{node.name} answers {response.opaque} of {line.other(node).name} unasked, "
                    "or twice"
                )
            return
        self.readings.stamp(owed[1], response, node.folder.offset)

    def all_answered(self, node: ControllerNode) -> None:
        """No two-way request waits past its deadline while the process runs."""
        if not node.owed:
            return
        since_ms, request = next(iter(node.owed.values()))
        if node.running_ms() - since_ms > REQUEST_DEADLINE_MS + ANSWER_SLACK_MS:
            raise InvariantBroken(
                f"{node.name} owes an answer to {request.code} for {node.running_ms() - since_ms} "
                "ms"
            )

    def controller_died(self, node: ControllerNode) -> None:
        node.owed.clear()

    def published(self, node: ControllerNode, outcome: Outcome) -> None:
        """D7: outcomes are published without a hole and in order, and say what every fold says."""
        offset = outcome.command_offset
        if offset > self.published_offset + 1:
            raise InvariantBroken(f"{node.name} published {offset} after {self.published_offset}")
        if self._digests.get(offset) != outcome.digest:
            raise InvariantBroken(f"{node.name} published another digest at {offset}")
        self.world.count(
            "outcome.published" if offset > self.published_offset else "outcome.repeated"
        )
        self.published_offset = max(self.published_offset, offset)

    # -- what others see ---------------------------------------------------------------------------

    def asked(self, request: RemotingCommand) -> int:
        """To be kept with the question: what anybody had been told of before it was asked."""
        self.calls.made(request)
        return self.readings.floor(request)

    def answered(
        self, name: str, request: RemotingCommand, answer: RemotingCommand, floor: int
    ) -> None:
        self.readings.check(name, request, answer, floor)

    def granted(self, broker: BrokerNode, broker_id: int, code: str) -> None:
        """S9: an id belongs to one broker."""
        key = broker.set.name, broker_id
        if self._owners.setdefault(key, code) != code:
            raise InvariantBroken(f"{broker.name} is granted {key}, which is another's")

    def leads(self, broker: BrokerNode, epoch: int) -> None:
        """S6: one mastership, of one life of one broker, per epoch; it holds everything
        acknowledged before.
        """
        key, mastership = (broker.set.name, epoch), (broker.name, broker.life)
        if self._masters.setdefault(key, mastership) != mastership:
            raise InvariantBroken(f"{self._masters[key]} and {mastership} are both master of {key}")
        known = self.realm.newest_state().sets.get(broker.set.name)
        # it slept; what the next one acknowledged is not its to hold
        is_over = known is not None and known.master_epoch > epoch
        lacks = None if broker.set.retiring or is_over else broker.set.intact.lacks(broker)
        if lacks is not None and self._went_unnoticed(broker, epoch):
            broker.set.intact.chosen_by_an_operator(broker, "java_unnoticed")
            lacks = None
        if lacks is not None:
            raise InvariantBroken(f"{broker.name} leads in epoch {epoch} and lacks {lacks}")

    def _went_unnoticed(self, broker: BrokerNode, epoch: int) -> bool:
        """README: a Java broker that lost no more than what came after its last heartbeat to
        whoever elects it.
        """
        by = self._elected_by.get((broker.set.name, epoch))
        return any(
            by is None or loss.left >= loss.shown.get(by, (-1, -1)) for loss in broker.losses
        )

    def acknowledging(
        self, replicas: ReplicaSet, master: BrokerNode, mastership: Mastership
    ) -> bool:
        """S1: whoever acknowledges is not behind a newer master that lacks it. False: a Java master
        alone, and its set went on.
        """
        newest = max((epoch for name, epoch in self._masters if name == replicas.name), default=0)
        if newest > mastership.epoch:
            name, life = self._masters[replicas.name, newest]
            other = next(one for one in replicas.brokers if one.name == name)
            if other.life == life and shared(other.history, master.history) < mastership.confirmed:
                if replicas.java and (replicas.name, newest) in self._at_risk:
                    return False
                raise InvariantBroken(
                    f"{master.name} acknowledges in epoch {mastership.epoch}, {name} leads in "
                    f"{newest} without it"
                )
        return True

    # -- at the end --------------------------------------------------------------------------------

    def whole(self) -> str | None:
        """None when everything is as it should be again; else what is missing."""
        leaders = [
            node.name
            for node in self.realm.controllers
            if node.core is not None and node.core.is_active
        ]
        if len(leaders) != 1:
            return f"active controllers: {leaders}"
        state = self.realm.newest_state()
        for node in self.realm.controllers:
            if node.core is None or node.folder.offset < len(self.realm.topics.records) - 1:
                return f"{node.name} is at offset {node.folder.offset}"
        if self.published_offset < len(self.realm.topics.records) - 1:
            return f"published up to {self.published_offset} of {len(self.realm.topics.records)}"
        for replicas in self.realm.sets:
            known = state.sets.get(replicas.name)
            ids = sorted(broker.broker_id or -1 for broker in replicas.brokers)
            if (
                known is not None
                and known.has_had_master
                and not {*known.sync_state_set, *known.unclean_members} & set(ids)
            ):
                # its disk was lost in the moment of its election: nobody is left whom rules could
                # elect
                continue
            if known is None or list(known.sync_state_set) != ids:
                return (
                    f"{replicas.name}: {ids} are there, the set is "
                    f"{None if known is None else known.sync_state_set}"
                )
            masters = [one for one in replicas.brokers if one.mastership is not None]
            if [one.broker_id for one in masters] != [known.master_broker_id]:
                return (
                    f"{replicas.name}: {known.master_broker_id} should lead, "
                    f"{[one.name for one in masters]} do"
                )
        return None
