"""What a member is now: role, term, vote and leader, as one value.

Responsible for: that nobody sees a role of one term with the leader of another. Refuses to know:
when it changes.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Role(Enum):
    """A member begins as a candidate."""

    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"


class Standing(Struct, frozen=True, gc=False):
    """`voted_for`: who got the vote of this term, None: nobody yet. `leader_id`: who leads it, None
    while that is not known.
    """

    role: Role
    term: int
    voted_for: str | None
    leader_id: str | None
