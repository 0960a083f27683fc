"""Request codes, answer codes and results of votes of DLedger 0.3.1.2.

Responsible for: the names and numbers (PROTOCOL 10.2), which are in bytes what Java's are. Refuses
to know: when each is given.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class MajorityRequest(IntEnum):
    """Codes of remoting frames."""

    METADATA = 50000
    APPEND = 50001
    GET = 50002
    VOTE = 51001
    HEART_BEAT = 51002
    PUSH = 51004
    LEADERSHIP_TRANSFER = 51005


FRAME_ANSWERED = 200
"""The code of a frame that answers any of them; what came of it stands in its body."""


class Code(IntEnum):
    """What came of a request, in the field `code` of an answer's body."""

    UNKNOWN = -1
    SUCCESS = 200
    TIMEOUT = 300
    METADATA_ERROR = 301
    NETWORK_ERROR = 302
    UNSUPPORTED = 303
    UNKNOWN_GROUP = 400
    UNKNOWN_MEMBER = 401
    UNEXPECTED_MEMBER = 402
    EXPIRED_TERM = 403
    NOT_LEADER = 404
    NOT_FOLLOWER = 405
    INCONSISTENT_STATE = 406
    INCONSISTENT_TERM = 407
    INCONSISTENT_INDEX = 408
    INCONSISTENT_LEADER = 409
    INDEX_OUT_OF_RANGE = 410
    UNEXPECTED_ARGUMENT = 411
    REPEATED_REQUEST = 412
    REPEATED_PUSH = 413
    DISK_ERROR = 414
    DISK_FULL = 415
    TERM_NOT_READY = 416
    FALL_BEHIND_TOO_MUCH = 417
    TAKE_LEADERSHIP_FAILED = 418
    INDEX_LESS_THAN_LOCAL_BEGIN = 419
    REQUEST_WITH_EMPTY_BODYS = 420
    PUSH_REQUEST_IS_FULL = 421
    INTERNAL_ERROR = 500
    TERM_CHANGED = 501
    WAIT_QUORUM_ACK_TIMEOUT = 502
    LEADER_PENDING_FULL = 503
    ILLEGAL_MEMBER_STATE = 504
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506


NOT_APPENDED = frozenset(
    {
        Code.UNKNOWN_GROUP,
        Code.UNKNOWN_MEMBER,
        Code.UNEXPECTED_MEMBER,
        Code.NOT_LEADER,
        Code.INCONSISTENT_LEADER,
        Code.UNEXPECTED_ARGUMENT,
        Code.DISK_FULL,
        Code.REQUEST_WITH_EMPTY_BODYS,
        Code.LEADER_PENDING_FULL,
        Code.LEADER_NOT_READY,
        Code.LEADER_TRANSFERRING,
    }
)
"""Of an append: it is in no log, and may be sent again. SUCCESS apart, all others say nothing: the
entry may be committed later.
"""


class PushType(Enum):
    """What a push wants of a follower."""

    APPEND = "APPEND"
    COMMIT = "COMMIT"
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"


class VoteResult(Enum):
    """What a member says to a candidate."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    REJECT_UNKNOWN_LEADER = "REJECT_UNKNOWN_LEADER"
    REJECT_UNEXPECTED_LEADER = "REJECT_UNEXPECTED_LEADER"
    REJECT_EXPIRED_VOTE_TERM = "REJECT_EXPIRED_VOTE_TERM"
    REJECT_ALREADY_VOTED = "REJECT_ALREADY_VOTED"
    REJECT_ALREADY_HAS_LEADER = "REJECT_ALREADY_HAS_LEADER"
    REJECT_TERM_NOT_READY = "REJECT_TERM_NOT_READY"
    REJECT_TERM_SMALL_THAN_LEDGER = "REJECT_TERM_SMALL_THAN_LEDGER"
    REJECT_EXPIRED_LEDGER_TERM = "REJECT_EXPIRED_LEDGER_TERM"
    REJECT_SMALL_LEDGER_END_INDEX = "REJECT_SMALL_LEDGER_END_INDEX"
    REJECT_TAKING_LEADERSHIP = "REJECT_TAKING_LEADERSHIP"
