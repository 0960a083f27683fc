"""Whether a set waits for a person, and what that person can do.

Responsible for telling a set in which nobody can be elected by the rules from one that helps
itself, and for naming the way out. Refuses to know who is asked for it, and every rule of an
election: `elect` is asked what it would decide now.
"""

from msgspec import Struct

from processors.controller.context import CoreContext
from processors.fold.candidates import Candidate, assess, awaited_of
from processors.fold.elect import by_length, elect
from processors.fold.rules import rules_of
from processors.fold.state import NO_BROKER_ID, BrokerSet


class OperatorNeeded(Struct, frozen=True, gc=False):
    """Why nothing will happen by itself, and the command or deed that ends it."""

    reason: str
    way_out: str


def operator_needed(broker_set: BrokerSet, context: CoreContext) -> OperatorNeeded | None:
    """None while the set has a live master, can elect one, or never had one."""
    if broker_set.tombstone or not broker_set.has_had_master:
        return None
    candidates = assess(broker_set, context.liveness.evidence(broker_set, context.now_ms))
    master = broker_set.master_broker_id
    if master is not None and any(one.broker_id == master and one.is_alive for one in candidates):
        return None
    state = context.state
    rules = rules_of(state.rules_version)
    would = elect(
        broker_set,
        candidates,
        broker_id=NO_BROKER_ID,
        designate=False,
        unclean_allowed=state.unclean_allowed,
        rules=rules,
    )
    if would.master_kept or would.winner is not None:
        return None
    awaited = awaited_of(broker_set, candidates, remembers=rules.remembers)
    return _needed(broker_set, candidates, awaited, state.at_risk_wait_ms)


def _needed(
    broker_set: BrokerSet,
    candidates: tuple[Candidate, ...],
    awaited: tuple[int, ...],
    at_risk_wait_ms: int,
) -> OperatorNeeded:
    name, unclean = broker_set.broker_name, broker_set.unclean_members
    members, remembered = broker_set.sync_state_set, broker_set.remembered
    wanted = tuple(sorted((*members, *remembered))) if members else awaited
    missing = [
        one.broker_id for one in candidates if one.broker_id in wanted and not _is_present(one)
    ]
    best = _longest(candidates, awaited if not members else None)
    one_of = "one of " if remembered and len(missing) > 1 else ""
    start = (
        f"start {one_of}{_replicas(missing or list(wanted))} with "
        f"{'its' if len(missing) == 1 else 'their'} own data"
    )
    if best is None:
        return OperatorNeeded(f"none of {_replicas(list(wanted))} is alive", start)
    elect_best = f"regent controller elect {name} {best}"
    if not members:
        lost = (
            ("the log lost its newest decisions")
            if broker_set.uncertain
            else f"all members ({_ids(unclean)}) lost power or a disk"
        )
        reason = f"{lost}, and {_replicas(missing)} did not come back"
        by_itself = (
            (f", which happens by itself when {at_risk_wait_ms} ms have passed (atRiskWaitMs)")
            if at_risk_wait_ms
            else ""
        )
        way_out = (
            f"{start}, or, if that cannot be: {elect_best} (acknowledged messages may be "
            f"missing){by_itself}"
        )
        return OperatorNeeded(reason, way_out)
    allow = "regent controller config set enableElectUncleanMaster=true"
    also = (
        (f", nor who else holds all that was acknowledged ({_ids(remembered)})")
        if remembered
        else ""
    )
    reason = f"no member of the SyncStateSet ({_ids(members)}) is alive{also}"
    return OperatorNeeded(
        reason,
        f"{start}, or, if that cannot be: {allow}, then {elect_best} (acknowledged messages "
        "may be missing)",
    )


def _longest(candidates: tuple[Candidate, ...], among: tuple[int, ...] | None) -> int | None:
    present = [
        one for one in candidates if _is_present(one) and (among is None or one.broker_id in among)
    ]
    return min(present, key=by_length).broker_id if present else None


def _is_present(candidate: Candidate) -> bool:
    return candidate.is_alive and candidate.replica.is_registered


def _replicas(ids: list[int]) -> str:
    return f"replica{'s' if len(ids) > 1 else ''} {_ids(ids)}"


def _ids(ids: list[int] | tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
