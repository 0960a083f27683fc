"""What commands and changes are made of: the envelope, the evidence, replicas as told.

Responsible for their shape only. Field meanings stand in `schemas/types/*.avsc`.
Refuses to know where evidence comes from and what rules make of it.
"""

from msgspec import Struct

NO_OFFSET = -1
UNKNOWN = -1
CLUSTER_ID_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
"""What a cluster may be called: a name that means the same in a path, a URI and a file's name."""
COMMAND_ID_BYTES = 16
DIGEST_BYTES = 32
ELECTION_PRIORITY_DEFAULT = 2_147_483_647


class Envelope(Struct, frozen=True, gc=False):
    """The appender of a command, its cause, term and knowledge (design D1)."""

    command_id: bytes
    cluster_id: str
    term: int
    issuer: str
    issued_at_ms: int
    cause: str
    requested_by: str | None = None
    applied_offset: int = NO_OFFSET
    applied_digest: bytes = b""


class ImportedReplica(Struct, frozen=True, gc=False, array_like=True):
    """One replica of a set that another controller looked after until now."""

    broker_id: int
    address: str
    register_check_code: str = ""


class MemberPosition(Struct, frozen=True, gc=False, array_like=True):
    """What a replica showed to hold as a member; `restarted` since, without telling where its log
    ends.
    """

    broker_id: int
    epoch: int
    end_offset: int
    restarted: bool = False


class ReplicaEvidence(Struct, frozen=True, gc=False):
    """What the issuer knew about one replica; -1 stands for an unknown number."""

    broker_id: int
    alive: bool
    reason: str
    silent_ms: int = UNKNOWN
    epoch: int = UNKNOWN
    max_offset: int = UNKNOWN
    confirm_offset: int = UNKNOWN
    election_priority: int = ELECTION_PRIORITY_DEFAULT
    incarnation: str | None = None
