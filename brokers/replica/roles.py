"""What a role notice means for a replica.

Responsible for: the one table that turns a notice of the controller into a verdict (RULES
10.5, design S5, S6, S8). Refuses to know: how a role is taken or left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Role(Enum):
    """FENCED: serves nobody, follows nobody; where every start begins."""

    FENCED = "FENCED"
    MASTER = "MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True)
class RoleNotice:
    """What an answer of the controller, or its 1008, says about the set.

    `members` and `set_epoch` are None when the message did not carry them; `replicas`: broker id to
    address; `at_risk`: the election knowingly chose among unclean replicas; `source`: where it came
    from, for the events. `regent_master` False: a Java master, whose epoch entries may lag behind
    the controller's epoch (PROTOCOL 2.7), and whose `master_ha_address` is but a
    guess.
    """

    master_id: int | None
    master_address: str | None = None
    master_ha_address: str | None = None
    master_epoch: int = 0
    members: tuple[int, ...] | None = None
    set_epoch: int | None = None
    replicas: dict[int, str] = field(default_factory=dict)
    at_risk: bool = False
    source: str = ""
    regent_master: bool = True


class Verdict(Enum):
    IGNORE = "old or contradictory news"
    REFRESH = "same master, same epoch: take over set and addresses"
    LEAD = "become master in a new epoch"
    FOLLOW = "become slave of another master"
    FENCE = "a higher epoch without a master"
    VETO = "chosen, but this replica may lack acknowledged bytes"
    ASK_ELECTION = "nobody leads, or only a former life of this broker does"
    ASK_STATE = "chosen without the set: nobody knows whom to wait for"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the replica stands. `master_epoch` 0: no notice taken since the start; `epoch_seen`:
    the highest epoch ever persisted, also by former lives; `trusted`: clean, or caught up since.
    """

    broker_id: int
    role: Role
    master_id: int | None
    master_epoch: int
    epoch_seen: int
    trusted: bool


def judge(standing: Standing, notice: RoleNotice) -> Verdict:
    """The verdict; epochs at or below the own one are ignored but for their news of the same
    master.

    A former life counts: an epoch that was seen before the restart may be followed again, but never
    led again (S6: a restarted master does not go on in its epoch).
    """
    if notice.master_epoch < max(standing.epoch_seen, standing.master_epoch):
        return Verdict.IGNORE
    if notice.master_epoch == standing.master_epoch and standing.role is not Role.FENCED:
        same = notice.master_id == standing.master_id
        return Verdict.REFRESH if same else Verdict.IGNORE
    if notice.master_id is None:
        known = notice.master_epoch == standing.epoch_seen and standing.role is Role.FENCED
        return Verdict.ASK_ELECTION if known else Verdict.FENCE
    if notice.master_id != standing.broker_id:
        return Verdict.FOLLOW
    if notice.master_epoch <= standing.epoch_seen:
        return Verdict.ASK_ELECTION
    if notice.members is None or notice.set_epoch is None:
        return Verdict.ASK_STATE
    return Verdict.LEAD if standing.trusted or notice.at_risk else Verdict.VETO
