"""What a decision is, and every reason for which a command is refused.

Responsible for the names of refusals and their RocketMQ response codes, in one table.
Refuses to know when they apply.
"""

from collections.abc import Mapping
from enum import Enum, auto

from msgspec import Struct

from brokers.remoting.codes import ResponseCode
from events.changes import Change
from events.outcomes import CandidateVerdict


class Refusal(Enum):
    """Why a command was refused; the name stands in outcomes and tables."""

    # Each is one object, and Enum's own hash is Python code: the fold looks them up at every
    # record.
    __hash__ = object.__hash__

    # The record, whatever it asks.
    UNREADABLE = auto()
    UNKNOWN_SCHEMA = auto()
    NOT_FORMED = auto()
    WRONG_CLUSTER = auto()
    STALE_TERM = auto()
    OUTSIDE_WINDOW = auto()
    COMMAND_ID_REUSED = auto()
    # The cluster.
    ALREADY_FORMED = auto()
    INVALID_SETTING = auto()
    INVALID_FINGERPRINTS = auto()
    RULES_NOT_NEWER = auto()
    TERM_MOVED = auto()
    # Ids and registrations.
    BROKER_ID_INVALID = auto()
    NEED_TO_BE_REGISTERED = auto()
    INVALID_REGISTRATION = auto()
    # The SyncStateSet.
    NO_SUCH_SET = auto()
    SET_UNCHANGED = auto()
    NOT_THE_MASTER = auto()
    MASTER_RESTARTED = auto()
    MASTER_EPOCH_FENCED = auto()
    SET_EPOCH_FENCED = auto()
    REPLICA_UNKNOWN = auto()
    REPLICA_NOT_ALIVE = auto()
    SET_WITHOUT_MASTER = auto()
    # Elections.
    STATE_MOVED = auto()
    MASTER_STILL_EXIST = auto()
    MASTER_NOT_AVAILABLE = auto()
    ELECT_MASTER_FAILED = auto()
    EPOCH_EXHAUSTED = auto()
    # Imports.
    IMPORT_UNKNOWN = auto()
    IMPORT_INVALID = auto()
    IMPORT_CONFLICT = auto()
    # Cleaning.
    CLEAN_HAS_MASTER = auto()
    CLEAN_NAMES_NOBODY = auto()
    CLEAN_IS_ALIVE = auto()
    CLEAN_NO_SUCH_SET = auto()
    # Doubts.
    DOUBT_INVALID = auto()


RESPONSE_CODES: Mapping[Refusal, int] = {
    Refusal.UNREADABLE: ResponseCode.SYSTEM_ERROR,
    Refusal.UNKNOWN_SCHEMA: ResponseCode.SYSTEM_ERROR,
    Refusal.NOT_FORMED: ResponseCode.CONTROLLER_NOT_LEADER,
    Refusal.WRONG_CLUSTER: ResponseCode.SYSTEM_ERROR,
    Refusal.STALE_TERM: ResponseCode.CONTROLLER_NOT_LEADER,
    Refusal.OUTSIDE_WINDOW: ResponseCode.SYSTEM_ERROR,
    Refusal.COMMAND_ID_REUSED: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.ALREADY_FORMED: ResponseCode.SYSTEM_ERROR,
    Refusal.INVALID_SETTING: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.INVALID_FINGERPRINTS: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.RULES_NOT_NEWER: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.TERM_MOVED: ResponseCode.CONTROLLER_NOT_LEADER,
    Refusal.BROKER_ID_INVALID: ResponseCode.CONTROLLER_BROKER_ID_INVALID,
    Refusal.NEED_TO_BE_REGISTERED: ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    Refusal.INVALID_REGISTRATION: ResponseCode.CONTROLLER_INVALID_REQUEST,
    Refusal.NO_SUCH_SET: ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    Refusal.SET_UNCHANGED: ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    Refusal.NOT_THE_MASTER: ResponseCode.CONTROLLER_INVALID_MASTER,
    Refusal.MASTER_RESTARTED: ResponseCode.CONTROLLER_INVALID_MASTER,
    Refusal.MASTER_EPOCH_FENCED: ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    Refusal.SET_EPOCH_FENCED: ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    Refusal.REPLICA_UNKNOWN: ResponseCode.CONTROLLER_INVALID_REPLICAS,
    Refusal.REPLICA_NOT_ALIVE: ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
    Refusal.SET_WITHOUT_MASTER: ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    Refusal.STATE_MOVED: ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    Refusal.MASTER_STILL_EXIST: ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
    Refusal.MASTER_NOT_AVAILABLE: ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    Refusal.ELECT_MASTER_FAILED: ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
    Refusal.EPOCH_EXHAUSTED: ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
    Refusal.IMPORT_UNKNOWN: ResponseCode.SYSTEM_ERROR,
    Refusal.IMPORT_INVALID: ResponseCode.SYSTEM_ERROR,
    Refusal.IMPORT_CONFLICT: ResponseCode.SYSTEM_ERROR,
    Refusal.CLEAN_HAS_MASTER: ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    Refusal.CLEAN_NAMES_NOBODY: ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    Refusal.CLEAN_IS_ALIVE: ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    Refusal.CLEAN_NO_SUCH_SET: ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    Refusal.DOUBT_INVALID: ResponseCode.CONTROLLER_INVALID_REQUEST,
}

# Refusals that decided nothing: the same id may come again and be decided.
UNDECIDED = frozenset(
    {
        Refusal.UNREADABLE,
        Refusal.UNKNOWN_SCHEMA,
        Refusal.NOT_FORMED,
        Refusal.WRONG_CLUSTER,
        Refusal.STALE_TERM,
        Refusal.OUTSIDE_WINDOW,
        Refusal.COMMAND_ID_REUSED,
    }
)

SUCCESS_CODE = int(ResponseCode.SUCCESS)


class Decision(Struct, frozen=True, gc=False):
    """What the rules made of one command.

    A refusal changes nothing, with one exception: an election that a controller asked for
    and that found nobody is refused and clears a dead master (RULES 5.5 row 6).
    """

    refusal: Refusal | None = None
    changes: tuple[Change, ...] = ()
    candidates: tuple[CandidateVerdict, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The RocketMQ response code for the asker."""
        return SUCCESS_CODE if self.refusal is None else int(RESPONSE_CODES[self.refusal])


ACCEPTED_WITHOUT_CHANGE = Decision()
