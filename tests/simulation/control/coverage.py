"""What a whole run must have seen, or it has not tested what it claims to.

Responsible for: the list of counters that must not stay 0, taken from the product's own
enumerations where there is one, with the closed list of exceptions. Refuses to know: how anything
is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.fold.refusals import Refusal
from tests.simulation.control import files
from tests.simulation.control.faults import Faults, Mix
from tests.simulation.control.realm import Realm, Shape
from tests.simulation.world import World

LOG = (
    "append_late",
    "append_twice",
    "append_lost",
    "append_purged",
    "tail_cut",
    "acknowledgement_lost",
    "answer_late",
    "question_lost",
)
CLAIMS = (
    "no_leader",
    "leader_silent",
    "leader_probe_refused",
    "leader_restarted",
    "leader_not_able",
    "leader_stepped_down",
    "leadership_transferred",
)
ELECTIONS = (
    "broker_request",
    "operator_request",
    "master_probe_refused",
    "master_heartbeat_expired",
    "master_never_seen",
    "master_restarted",
    "no_master",
)
OTHERS = (
    "snapshot.used",
    "snapshot.refused",
    "controller.too_old",
    "forwarded",
    "outcome.late",
    "outcome.repeated",
    "probe.open",
    "probe.refused",
    "probe.timeout",
    "java.temporary_dropped",
    "java.asked",
    "java.linked",
    "broker.id_refused",
    "label.REPEAT",
    "label.DESIGNATED",
    "elections.by_silence",
    "leader.deaf",
    "operator.activate.0",
    "operator.activate.1",
    "operator.transfer.0",
    "operator.settings.0",
    "world.healed",
    "heartbeat.relayed",
)

NOT_PRODUCED: Mapping[str, str] = {
    "refusal.UNREADABLE": "garbage in the log has the whole-cluster world",
    "refusal.UNKNOWN_SCHEMA": "as above: a stranger's records",
    ("refusal.NOT_FORMED"): (
        "needs a stranger's record at offset 0, before any controller; such a log is refused by "
        "all of them"
    ),
    "refusal.WRONG_CLUSTER": "a stranger's record",
    "refusal.COMMAND_ID_REUSED": "nobody here uses an id for two wishes",
    (
        "refusal.INVALID_SETTING"
    ): "a leader tells the operator what is wrong before anything is recorded",
    "refusal.INVALID_FINGERPRINTS": "needs a hand-made ActivateRules",
    "refusal.INVALID_REGISTRATION": "needs a hand-made registration",
    "refusal.EPOCH_EXHAUSTED": "epochs far above those known of a set are not believed (rules 3)",
    (
        "refusal.MASTER_RESTARTED"
    ): "the whole-cluster world has it: no broker here asks before its election",
    "refusal.CLEAN_HAS_MASTER": "the whole-cluster world has it, with a set that holds nothing",
    (
        "ElectMaster.master_never_seen.accepted"
    ): "takes longer than these worlds last; the whole-cluster world has it",
    "refusal.DOUBT_INVALID": "only `rebuild` appends doubts, with the topic to itself",
    "refusal.IMPORT_UNKNOWN": "imports have tests of their own",
    "refusal.IMPORT_CONFLICT": "imports have tests of their own",
    "refusal.IMPORT_INVALID": "imports have tests of their own",
}
"""What no world produces, and why."""


def required() -> list[str]:
    """The names of all counters that must move."""
    return [name for name in everything() if name not in NOT_PRODUCED]


def everything() -> list[str]:
    """The same, exceptions included."""
    names = [f"fault.{kind}" for kind in fault_kinds()]
    names += [f"log.{event}" for event in LOG]
    names += [f"ClaimLeadership.{cause}.accepted" for cause in CLAIMS]
    names += [f"ElectMaster.{cause}.accepted" for cause in ELECTIONS]
    names += [f"refusal.{refusal.name}" for refusal in Refusal]
    names += [f"snapshot.{kind}" for kind in files.DAMAGES]
    return names + list(OTHERS)


def fault_kinds() -> list[str]:
    """Every kind of fault a world may have."""
    return list(Faults(Realm(World(0), Shape()), Mix()).kinds)


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
