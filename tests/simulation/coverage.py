"""What a whole run must have seen, or it has not tested what it claims to.

Responsible for: the list of counters that must not stay 0, taken from the product's own
enumerations, with the closed list of exceptions.
Refuses to know: how anything is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.codes import RequestCode, ResponseCode
from processors.fold.decide_replicas import REASON_CLEANED, REASON_UNCLEAN_START
from processors.fold.decide_sync_set import REASON_PROPOSED
from processors.fold.refusals import Refusal
from processors.liveness import triggers
from tests.simulation.cluster import Cluster, Shape
from tests.simulation.faults import Faults
from tests.simulation.mixes import Mix
from tests.simulation.world import World

HA_FRAMES = ("handshake", "handshake_reply", "transfer", "heartbeat", "ack")
REMOTING = (
    RequestCode.SEND_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
    RequestCode.CONTROLLER_ELECT_MASTER,
    RequestCode.CONTROLLER_REGISTER_BROKER,
    RequestCode.CONTROLLER_GET_REPLICA_INFO,
    RequestCode.CONTROLLER_GET_METADATA_INFO,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
    RequestCode.REGENT_PEER_HEARTBEAT,
)
JOURNAL = ("append_late", "append_lost", "answer_lost", "append_twice")
ANSWERS = (
    ResponseCode.SUCCESS,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""What clients of a broker are told."""
LABELS = ("REPEAT", "DESIGNATED", "REMEMBERED", "AT_RISK")
LEFT = (REASON_PROPOSED, REASON_UNCLEAN_START, REASON_CLEANED)
"""Why somebody was a member no more."""

NOT_PRODUCED: Mapping[str, str] = {
    ("refusal.NOT_FORMED"): (
        "needs a stranger's record at offset 0, before any controller; such a log is refused by "
        "all of them"
    ),
    **dict.fromkeys(
        ("refusal.IMPORT_CONFLICT", "refusal.IMPORT_INVALID", "refusal.IMPORT_UNKNOWN"),
        "nothing is imported into a set whose brokers' bytes are watched here; tests/conformance, "
        "tests/property and interop do it",
    ),
    ("refusal.DOUBT_INVALID"): (
        "only `rebuild` appends doubts, with the topic to itself; the golden histories and unit "
        "tests have it"
    ),
    ("refusal.EPOCH_EXHAUSTED"): (
        "epochs far above those known of a set are not believed (rules 3); the golden histories "
        "and unit tests have it"
    ),
    ("election.master_cleaned"): (
        "cleaning a master clears it in the same command, so a set never names a master it has "
        "forgotten"
    ),
}
"""What no world can produce, and why."""


def required() -> list[str]:
    """The names of all counters that must move."""
    return [name for name in everything() if name not in NOT_PRODUCED]


def everything() -> list[str]:
    """The same, exceptions included."""
    causes = sorted(value for name, value in vars(triggers).items() if name.startswith("CAUSE_"))
    names = [f"dropped.ha.{frame}" for frame in HA_FRAMES]
    names += [f"dropped.remoting.{int(code)}" for code in REMOTING] + ["dropped.remoting.answer"]
    names += [f"refusal.{refusal.name}" for refusal in Refusal]
    names += [f"election.{cause}" for cause in causes]
    names += [f"fault.{kind}" for kind in fault_kinds()]
    names += [f"journal.{event}" for event in JOURNAL]
    names += [f"label.{label}" for label in LABELS]
    names += [
        "replica.truncated",
        "disk.error",
        "disk.unflushed_bytes_lost",
        "start.other_boot",
        "start.io_error",
    ]
    names += [
        "start.flushed_exit",
        "disk.full",
        "store.tail_cut",
        "block.kept",
        "block.lost",
        "block.torn",
        "message.read",
    ]
    names += ["flip.unread_by_the_start", "holder.struck"]
    names += [f"answer.{int(code)}" for code in ANSWERS]
    names += [
        "retention.expired",
        "retention.forced",
        "log.begins_late",
        "slave.begins_anew",
        "link.left_silent",
    ]
    names += ["forward.passed_on", "forward.served", "forward.done", "forward.unknown"]
    names += [
        "fault.lasting_unheard",
        "snapshot.refused",
        "controller.from_anothers_snapshot",
        "replica.cleaned",
        "replica.emptied",
    ]
    names += ["election.waits", "event.LossNoticed", *(f"left.{why}" for why in LEFT)]
    names += ["event.HandOverBegun", "event.HandOverCompleted", "event.HandOverRefused"]
    names += ["shape.learners", "shape.priorities", "shape.minimums"]
    names += ["controller.from_snapshot", "outcome_log.late", "count_mode.worlds"]
    return names


def fault_kinds() -> list[str]:
    """Every kind of fault a world may have."""
    return list(Faults(Cluster(World(0), Shape()), Mix(odd=False)).kinds)


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
