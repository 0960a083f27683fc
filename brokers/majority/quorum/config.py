"""What a member of a majority group knows of itself, and the limits it keeps.

Responsible for: names and defaults, DLedger's where it has one (PROTOCOL 10.5). Refuses to know:
where settings come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from brokers.majority.quorum.effects import NewEntry

NO_PRIORITY = 1 << 31
NO_MESSAGE = NewEntry(None, 0, lambda position: b"")
"""An entry without a body."""


class Durability(Enum):
    """When an entry counts as held by a member."""

    FLUSHED = "on the disk: what is acknowledged outlives a loss of power everywhere"
    WRITTEN = "in the system's memory: acknowledged entries are lost when a majority loses power"


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """Times in ms. `members`: the ids of all, oneself too; they never change. `preferred`: who
    should lead when it can. `priorities`: by member, the smaller goes first.
    """

    group: str
    self_id: str
    members: tuple[str, ...]
    durability: Durability = Durability.FLUSHED
    first_entry: NewEntry = NO_MESSAGE
    """What begins a term. RocketMQ's brokers need a message in every entry (PROTOCOL 10.7)."""
    heartbeat_ms: int = 2_000
    heartbeats_missed_max: int = 3
    vote_pause_ms: tuple[int, int] = (300, 1_000)
    vote_wait_ms: int = 2_000
    call_ms: int = 3_000
    # Leader: one peer's pushes that are not answered, and what is done about them.
    window_entries: int = 1_000
    window_bytes: int = 8 << 20
    batches: bool = True
    batch_entries: int = 256
    batch_bytes: int = 256 << 10
    push_timeout_ms: int = 1_000
    retry_pause_ms: int = 500
    disk_full_pause_ms: int = 1_000
    commit_silence_ms: int = 1_000
    # Follower: pushes in front of which something is missing.
    parked_ms: int = 1_000
    parked_entries_max: int = 4_096
    parked_bytes_max: int = 16 << 20
    # Clients.
    append_wait_ms: int = 2_500
    pending_max: int = 10_000
    flush_interval_ms: int = 10
    # Handing over.
    transfer_lag_max: int = 1_000
    transfer_wait_ms: int = 1_000
    take_vote_pause_ms: tuple[int, int] = (30, 100)
    preferred: tuple[str, ...] = ()
    preferred_check_ms: int = 1_000
    preferred_pause_max_ms: int = 60_000
    priorities: Mapping[str, int] = field(default_factory=dict)
    priority_pause_ms: int = 100

    def __post_init__(self) -> None:
        if len(set(self.members)) != len(self.members) or self.self_id not in self.members:
            raise ValueError("members have different ids, and oneself is one of them")
        if min(self.window_entries, self.window_bytes, self.batch_entries, self.batch_bytes) < 1:
            raise ValueError("windows and batches hold one entry at least")
        if self.heartbeat_ms <= 0 or self.vote_pause_ms[0] > self.vote_pause_ms[1]:
            raise ValueError(
                "a heartbeat takes time, and a pause has its shortest before its longest"
            )

    @property
    def majority(self) -> int:
        """Of all members, whether they live or not."""
        return len(self.members) // 2 + 1

    @property
    def peers(self) -> tuple[str, ...]:
        """All members but oneself."""
        return tuple(one for one in self.members if one != self.self_id)

    @property
    def silence_ms(self) -> int:
        """Without a leader's word, or a majority's, for longer than this, leadership is over."""
        return self.heartbeat_ms * self.heartbeats_missed_max

    def priority(self, member: str) -> int:
        return self.priorities.get(member, NO_PRIORITY)

    @property
    def rank(self) -> int:
        """How many members go first."""
        own = self.priority(self.self_id)
        return sum(self.priority(one) < own for one in self.members)
