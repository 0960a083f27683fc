"""A controller's figures of this moment: what is read off when somebody looks, rather than counted
(RULES 13).

Responsible for: which figures there are. Refuses to know: how they are written, and what was
counted (`metrics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from processors.controller.context import CoreContext
from processors.controller.operator_needed import operator_needed

ROLE_UNKNOWN, ROLE_CANDIDATE, ROLE_FOLLOWER, ROLE_LEADER = 0, 1, 2, 3
"""The values of RocketMQ's metric `role`."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Offsets count records; -1 stands for none yet. `living`: (cluster, set) -> replicas that are
    alive.
    """

    role: int
    term: int
    rules_version: int
    leader_known: bool
    applied_offset: int
    end_offset: int
    published_offset: int
    pending: int
    living: Mapping[tuple[str, str], int]
    sets: int
    sets_without_master: int
    sets_at_risk: int
    sets_operator_needed: int
    unclaimed_ids: int
    silence_max_ms: int


SETS_AT_ONCE = 200
"""Sets looked at before others get their turn: ten thousand take the better part of a second."""


def figures_of(
    context: CoreContext, end_offset: int, published_offset: int, pending: int
) -> Iterator[Gauges | None]:
    """The figures, in steps: None until the last one. All sets are those of the first step; who
    lives is as of each.
    """
    state = context.state
    leader_known = context.leader_address() is not None
    role = ROLE_LEADER if context.is_active else ROLE_FOLLOWER if leader_known else ROLE_CANDIDATE
    living: Counter[tuple[str, str]] = Counter()
    sets = [one for one in state.sets.values() if not one.tombstone]
    silence, unclaimed, needed = 0, 0, 0
    for number, one in enumerate(sets):
        if number % SETS_AT_ONCE == 0 and number:
            yield None
        needed += operator_needed(one, context) is not None
        for replica in one.replicas:
            alive = context.is_alive(one, replica)
            living[one.cluster_name, one.broker_name] += alive
            unclaimed += not replica.is_registered
            pulse = (
                context.liveness.pulse((one.cluster_name, one.broker_name, replica.broker_id))
                if alive
                else None
            )
            if pulse is not None:
                silence = max(silence, context.now_ms - pulse.heard_ms)
    yield Gauges(
        role=role if state.cluster_id else ROLE_UNKNOWN,
        term=state.term,
        rules_version=state.rules_version,
        leader_known=leader_known,
        applied_offset=context.folder.offset,
        end_offset=max(end_offset, context.folder.offset + 1),
        published_offset=published_offset,
        pending=pending,
        living=living,
        sets=len(sets),
        sets_without_master=sum(one.master_broker_id is None for one in sets),
        sets_at_risk=sum(context.is_at_risk(one.broker_name) for one in sets),
        sets_operator_needed=needed,
        unclaimed_ids=unclaimed,
        silence_max_ms=silence,
    )
