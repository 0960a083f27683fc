"""Who becomes master: the election policy as one pure function (RULES 7, S5 to S7).

Responsible for choosing among the replicas of one set and for saying why each was chosen or
not. Refuses to know epochs to come, refusals and commands: it gets what they boil down to.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from events.outcomes import (
    LABEL_AT_RISK,
    LABEL_DESIGNATED,
    LABEL_REMEMBERED,
    LABEL_UNCLEAN,
    CandidateVerdict,
)
from processors.fold.candidates import (
    Candidate,
    absence_of,
    awaited_of,
    find,
    nobody_comes_back,
    verdict_of,
)
from processors.fold.decide_doubt import is_proven_anew
from processors.fold.rules import RULES, RULES_VERSION, Rules
from processors.fold.state import NO_BROKER_ID, BrokerSet


class Election(Struct, frozen=True, gc=False):
    """The result: `winner` is None when nobody could be chosen or the master was kept.

    `members` is the SyncStateSet that goes with the winner, ascending.
    """

    winner: int | None
    members: tuple[int, ...]
    verdicts: tuple[CandidateVerdict, ...]
    labels: tuple[str, ...] = ()
    master_kept: bool = False


SortKey = Callable[[Candidate], tuple[int, int, int, int]]


def by_priority(candidate: Candidate) -> tuple[int, int, int, int]:
    """Order within the set: every member holds all that was acknowledged, so taste goes first."""
    return (candidate.priority, -candidate.epoch, -candidate.max_offset, candidate.broker_id)


def by_length(candidate: Candidate) -> tuple[int, int, int, int]:
    """Order where acknowledged bytes may be missing: the longest history goes first."""
    return (-candidate.epoch, -candidate.max_offset, candidate.priority, candidate.broker_id)


_RULES: Mapping[SortKey, tuple[str, str, str, str]] = {
    by_priority: ("LOWER_PRIORITY", "LOWER_EPOCH", "LOWER_OFFSET", "HIGHER_ID"),
    by_length: ("LOWER_EPOCH", "LOWER_OFFSET", "LOWER_PRIORITY", "HIGHER_ID"),
}


def elect(
    broker_set: BrokerSet,
    candidates: tuple[Candidate, ...],
    *,
    broker_id: int,
    designate: bool,
    unclean_allowed: bool,
    rules: Rules = RULES[RULES_VERSION],
    wait_is_over: bool = False,
) -> Election:
    """Choose a master among `candidates`, the answer of `assess`.

    `broker_id` asks or is designated, -1 for a controller acting by itself. `wait_is_over`: an
    election at risk does not wait any longer (setting atRiskWaitMs).
    """
    if designate:
        return _elect_designated(broker_set, candidates, broker_id, unclean_allowed, rules)
    if not broker_set.has_had_master and broker_id != NO_BROKER_ID:
        return _elect_first(candidates, broker_id, longest=rules.first_takes_longest)
    if _master_is_kept(broker_set, candidates):
        return _kept(broker_set, candidates)
    members = _sound_members(candidates)
    if members:
        winner = min(members, key=by_priority)
        survivors = _surviving_members(broker_set, members, winner, rules)
        return _won(winner, candidates, by_priority, survivors)
    remembered = _sound_remembered(broker_set, candidates)
    if remembered:
        winner = min(remembered, key=by_length)
        survivors = _surviving_members(broker_set, remembered, winner, rules)
        eligible = frozenset(map(id, remembered))
        return _won(winner, candidates, by_length, survivors, (LABEL_REMEMBERED,), eligible)
    return _elect_at_risk(broker_set, candidates, unclean_allowed, rules, wait_is_over=wait_is_over)


def _sound_members(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return [
        c
        for c in candidates
        if c.in_set and c.is_alive and c.replica.clean and c.replica.is_registered
    ]


def _sound_remembered(broker_set: BrokerSet, candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Return who was left out and holds all that was acknowledged (S14): nobody under rules 1 and
    2.
    """
    return [
        c
        for c in candidates
        if c.broker_id in broker_set.remembered and c.replica.clean and _is_present(c)
    ]


def _master_is_kept(broker_set: BrokerSet, candidates: tuple[Candidate, ...]) -> bool:
    """A live master stays, unless it restarted: then its epoch is over (S6)."""
    if broker_set.master_broker_id is None or broker_set.master_restarted:
        return False
    return any(c.broker_id == broker_set.master_broker_id and c.is_alive for c in candidates)


def _surviving_members(
    broker_set: BrokerSet, members: list[Candidate], winner: Candidate, rules: Rules
) -> tuple[int, ...]:
    """Each live member of ours holds all that was acknowledged (S1); Java gets {master}."""
    for member in members:
        if not member.replica.is_regent:
            return (winner.broker_id,)
    if rules.java_master_resets_set:
        master = broker_set.master_broker_id
        last = broker_set.sync_state_set if master is None else (master,)
        for replica in broker_set.replicas:
            if not replica.is_regent and replica.broker_id in last:
                return (winner.broker_id,)
    return tuple([member.broker_id for member in members])


def _kept(broker_set: BrokerSet, candidates: tuple[Candidate, ...]) -> Election:
    verdicts = tuple(
        verdict_of(c, "MASTER_KEPT" if c.broker_id == broker_set.master_broker_id else "NOT_NEEDED")
        for c in candidates
    )
    return Election(None, broker_set.sync_state_set, verdicts, master_kept=True)


def _elect_first(candidates: tuple[Candidate, ...], broker_id: int, *, longest: bool) -> Election:
    """Before the first election nothing was acknowledged here: any living replica that asks may
    lead.

    `longest`: unless another one that reports has more, from before this set was known here. That
    may be missing from an unclean start, and the replica leads only when it is told so (S5).
    """
    present = [c for c in candidates if _is_present(c)]
    asking = find(present, broker_id)
    if longest and asking is not None:
        best = min(present, key=by_length)
        if (best.epoch, best.max_offset) > (asking.epoch, asking.max_offset):
            return _won(best, candidates, by_length, (best.broker_id,), _first_labels(best))
    for candidate in candidates:
        if candidate.broker_id == broker_id and _is_present(candidate):
            labels = _first_labels(candidate) if longest else ()
            return _won(candidate, candidates, None, (broker_id,), labels, others="NOT_ASKING")
    return _nobody(candidates, "NOT_ASKING")


def _first_labels(winner: Candidate) -> tuple[str, ...]:
    return () if winner.replica.clean else (LABEL_AT_RISK,)


def _elect_designated(
    broker_set: BrokerSet,
    candidates: tuple[Candidate, ...],
    broker_id: int,
    unclean_allowed: bool,
    rules: Rules,
) -> Election:
    named = find(candidates, broker_id)
    if named is None or not _is_present(named):
        return _nobody(candidates, "NOT_DESIGNATED")
    if broker_id == broker_set.master_broker_id and _master_is_kept(broker_set, candidates):
        return _kept(broker_set, candidates)
    labels: tuple[str, ...] = (LABEL_DESIGNATED,)
    members = _sound_members(candidates)
    if find(members, broker_id) is not None:
        survivors = _surviving_members(broker_set, members, named, rules)
        return _won(named, candidates, None, survivors, labels, others="NOT_DESIGNATED")
    remembered = _sound_remembered(broker_set, candidates)
    if find(remembered, broker_id) is not None:
        holders = sorted([*members, *remembered], key=lambda one: one.broker_id)
        survivors = _surviving_members(broker_set, holders, named, rules)
        labels = (LABEL_DESIGNATED, LABEL_REMEMBERED)
        return _won(named, candidates, None, survivors, labels, others="NOT_DESIGNATED")
    if not broker_set.has_had_master:
        if rules.first_takes_longest:
            labels = (*_first_labels(named), *labels)
        return _won(named, candidates, None, (broker_id,), labels, others="NOT_DESIGNATED")
    waiting_is_over = nobody_comes_back(broker_set, candidates, remembers=rules.remembers) and (
        broker_id in broker_set.unclean_members or broker_id in broker_set.former
    )
    if not waiting_is_over and not unclean_allowed:
        return _nobody(candidates, "NOT_DESIGNATED", named=broker_id)
    labels = (LABEL_AT_RISK, LABEL_DESIGNATED)
    if not waiting_is_over:
        labels = (*labels, LABEL_UNCLEAN)
    return _won(named, candidates, None, (broker_id,), labels, others="NOT_DESIGNATED")


def _elect_at_risk(
    broker_set: BrokerSet,
    candidates: tuple[Candidate, ...],
    unclean_allowed: bool,
    rules: Rules,
    *,
    wait_is_over: bool,
) -> Election:
    """Nobody in the set can be chosen: all of it started unclean (S5), or unclean is allowed.

    A former member may hold what those lost: it is waited for, and the longest of all that are
    there leads (S14), also without those who were waited for as long as the setting says. Rules 1
    and 2 look at the unclean members alone.
    """
    if unclean_allowed:
        present = [c for c in candidates if _is_present(c)]
        at_risk = (LABEL_AT_RISK,) if broker_set.has_had_master else ()
        return _longest(present, candidates, (*at_risk, LABEL_UNCLEAN))
    if nobody_comes_back(broker_set, candidates, remembers=rules.remembers):
        awaited = awaited_of(broker_set, candidates, remembers=rules.remembers)
        waiting = [c for c in candidates if c.broker_id in awaited]
        missing = tuple(c.broker_id for c in waiting if not _is_present(c))
        if missing and not wait_is_over:
            return _nobody(
                candidates,
                "NOT_IN_SET",
                waiting=awaited,
                missing=missing if rules.remembers else (),
            )
        if rules.remembers:
            waiting = [c for c in candidates if _is_present(c)]
        labels = () if is_proven_anew(broker_set, candidates) else (LABEL_AT_RISK,)
        return _longest(waiting, candidates, labels, missing)
    return _nobody(candidates, "NOT_IN_SET" if broker_set.has_had_master else "NOT_ASKING")


def _longest(
    eligible: list[Candidate],
    candidates: tuple[Candidate, ...],
    labels: tuple[str, ...],
    given_up: tuple[int, ...] = (),
) -> Election:
    if not eligible:
        return _nobody(candidates, "NOT_ALIVE")
    winner, members = min(eligible, key=by_length), frozenset(map(id, eligible))
    return _won(
        winner, candidates, by_length, (winner.broker_id,), labels, members, given_up=given_up
    )


def _is_present(candidate: Candidate) -> bool:
    return candidate.is_alive and candidate.replica.is_registered


def _won(
    winner: Candidate,
    candidates: tuple[Candidate, ...],
    order: SortKey | None,
    members: tuple[int, ...],
    labels: tuple[str, ...] = (),
    eligible: frozenset[int] | None = None,
    *,
    others: str = "",
    given_up: tuple[int, ...] = (),
) -> Election:
    """Return the election won by `winner`; each other verdict is the first rule against it.

    `given_up`: replicas that were waited for until their time had passed.
    """
    verdicts = []
    for candidate in candidates:
        if candidate is winner:
            verdict = "CHOSEN"
        elif candidate.broker_id in given_up:
            verdict = "WAIT_OVER"
        elif order is None:
            verdict = absence_of(candidate) or others
        else:
            against = absence_of(candidate) or _unfitness(candidate, order, eligible)
            verdict = against or _behind(candidate, winner, order)
        verdicts.append(verdict_of(candidate, verdict))
    return Election(winner.broker_id, members, tuple(verdicts), labels)


def _nobody(
    candidates: tuple[Candidate, ...],
    otherwise: str,
    *,
    named: int = NO_BROKER_ID,
    waiting: tuple[int, ...] = (),
    missing: tuple[int, ...] = (),
) -> Election:
    """Return the election without a winner; `otherwise` is the verdict on replicas that stood
    aside. `waiting`: replicas that would stand, but for the `missing` ones that are waited for.
    """
    verdicts = []
    for candidate in candidates:
        reason = otherwise
        if candidate.broker_id in waiting:
            reason = "WAITING"
        elif otherwise == "NOT_IN_SET" or candidate.broker_id == named:
            reason = "NOT_IN_SET" if candidate.replica.clean else "UNCLEAN"
        reason = "AWAITED" if candidate.broker_id in missing else absence_of(candidate) or reason
        verdicts.append(verdict_of(candidate, reason))
    return Election(None, (), tuple(verdicts))


def _unfitness(candidate: Candidate, order: SortKey, eligible: frozenset[int] | None) -> str:
    """Return why it did not stand although it was there, or nothing."""
    if order is by_length:
        return "" if eligible is None or id(candidate) in eligible else "NOT_IN_SET"
    if not candidate.replica.clean:
        return "UNCLEAN"
    return "" if candidate.in_set else "NOT_IN_SET"


def _behind(candidate: Candidate, winner: Candidate, order: SortKey) -> str:
    """Return the rule by which `winner` goes before `candidate`."""
    for verdict, mine, best in zip(_RULES[order], order(candidate), order(winner), strict=True):
        if mine > best:
            return verdict
    raise AssertionError(f"{candidate} does not stand behind {winner}")
