"""What a master may promise (S1, S3) and whom it wants in the set (S4)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.sync_set import SetTimers, SlaveFacts, SyncSet, count_mode_candidate

TIMERS = SetTimers(ack_wait_shrink_ms=1000, relink_grace_ms=1000)
KEEPS_UP = SlaveFacts(acked=100, waiting_ms=0)


def sync_set(*members: int, min_in_sync: int = 2, now_ms: int = 0) -> SyncSet:
    return SyncSet(1, members, 7, min_in_sync=min_in_sync, timers=TIMERS, now_ms=now_ms)


def wanted(
    sync: SyncSet, slaves: dict[int, SlaveFacts], now_ms: int, confirm: int = 100
) -> frozenset | None:
    return sync.wanted(slaves, confirm_offset=confirm, epoch_start=50, now_ms=now_ms)


def test_only_what_every_member_acknowledged_is_confirmed() -> None:
    sync = sync_set(1, 2, 3)
    assert sync.confirm_candidate(100, {2: 90, 3: 80}) == 80
    assert sync.confirm_candidate(100, {2: 90, 3: 80, 4: 10}) == 80  # 4 is no member
    assert sync.confirm_candidate(70, {2: 90, 3: 80}) == 70
    # 3 has acknowledged nothing on any link yet
    assert sync.confirm_candidate(100, {2: 90}) is None


def test_the_members_of_an_unresolved_proposal_count_too() -> None:
    sync = sync_set(1, 2)
    sync.propose(1, frozenset({1, 2, 3}))
    assert sync.union == {1, 2, 3}
    assert sync.confirm_candidate(100, {2: 90}) is None
    assert sync.confirm_candidate(100, {2: 90, 3: 60}) == 60


def test_a_proposed_leaver_still_counts_until_the_controller_said_so() -> None:
    sync = sync_set(1, 2, 3)
    sync.propose(1, frozenset({1, 2}))
    assert sync.confirm_candidate(100, {2: 100, 3: 30}) == 30
    assert sync.learn((1, 2), 8)
    assert sync.confirm_candidate(100, {2: 100, 3: 30}) == 100


def test_below_the_minimum_of_members_nothing_is_confirmed() -> None:
    sync = sync_set(1)
    assert sync.confirm_candidate(100, {}) is None
    assert sync_set(1, min_in_sync=1).confirm_candidate(100, {}) == 100


def test_a_proposal_outlives_reads_of_its_own_base_and_ends_with_a_newer_set() -> None:
    sync = sync_set(1, 2)
    sync.propose(1, frozenset({1, 2, 3}))
    assert not sync.learn((1, 2), 7)  # a read of the same epoch: the answer may still be on its way
    assert not sync.learn((1, 2), 6)
    assert sync.proposal is not None
    assert sync.learn((1, 2, 3), 8)
    assert sync.proposal is None and sync.confirmed == {1, 2, 3}


def test_a_set_changed_by_someone_else_ends_the_proposal_as_well() -> None:
    sync = sync_set(1, 2, 3)
    sync.propose(1, frozenset({1, 2, 3, 4}))
    assert sync.learn((1, 2), 8)
    assert sync.proposal is None and sync.union == {1, 2}


def test_only_the_refused_proposal_itself_is_dropped() -> None:
    sync = sync_set(1, 2)
    sync.propose(5, frozenset({1, 2, 3}))
    sync.refused(4)
    assert sync.proposal is not None
    sync.refused(5)
    assert sync.proposal is None and sync.set_epoch == 7


def test_the_master_is_a_member_whatever_it_is_told() -> None:
    sync = sync_set(2)
    assert sync.confirmed == {1, 2}
    sync.learn((2, 3), 8)
    assert sync.confirmed == {1, 2, 3}


def test_a_replica_joins_when_it_reached_the_confirm_offset_and_the_epoch() -> None:
    sync = sync_set(1, 2)
    both = {2: KEEPS_UP}
    assert wanted(sync, {**both, 3: SlaveFacts(99, 0)}, 0) is None
    assert wanted(sync, {**both, 3: SlaveFacts(100, 0)}, 0) == {1, 2, 3}
    # not yet in this epoch
    assert wanted(sync, {**both, 3: SlaveFacts(49, 0)}, 0, confirm=10) is None
    assert wanted(sync, {**both, 3: SlaveFacts(50, 0)}, 0, confirm=10) == {1, 2, 3}
    assert wanted(sync, {**both, 3: SlaveFacts(100, 0, learner=True)}, 0) is None
    assert wanted(sync, {**both, 3: SlaveFacts(100, 1001)}, 0) is None  # it would leave at once
    assert wanted(sync, {**both, 3: SlaveFacts(-1, 0)}, 0, confirm=0) is None
    assert wanted(sync, {**both, 3: SlaveFacts(100, 0, has_tables=False)}, 0) is None


def test_a_member_leaves_when_it_left_bytes_waiting_for_a_second() -> None:
    sync = sync_set(1, 2, 3)
    assert wanted(sync, {2: KEEPS_UP, 3: SlaveFacts(10, 1000)}, 0) is None
    assert wanted(sync, {2: KEEPS_UP, 3: SlaveFacts(10, 1001)}, 0) == {1, 2}


def test_a_member_that_became_a_learner_leaves_where_enough_stay() -> None:
    learner = SlaveFacts(100, 0, learner=True)
    assert wanted(sync_set(1, 2, 3), {2: KEEPS_UP, 3: learner}, 0) == {1, 2}
    short = sync_set(1, 3)
    assert wanted(short, {3: learner}, 0) is None and short.reachable({3: learner}, 0) == 2
    assert wanted(short, {2: KEEPS_UP, 3: learner}, 0) == {1, 2}


def test_a_member_whose_link_is_down_leaves_at_once_but_first_it_may_relink() -> None:
    sync = sync_set(1, 2, 3)
    assert wanted(sync, {2: KEEPS_UP}, 999) is None  # 3 has not linked in this mastership yet
    assert wanted(sync, {2: KEEPS_UP}, 1000) == {1, 2}
    sync.linked_once.add(3)
    assert wanted(sync, {2: KEEPS_UP}, 10) == {1, 2}  # it had, and is gone


def test_own_standstill_prolongs_the_grace() -> None:
    sync = sync_set(1, 2, 3)
    sync.forgive(5000)
    assert wanted(sync, {2: KEEPS_UP}, 5999) is None
    assert wanted(sync, {2: KEEPS_UP}, 6000) == {1, 2}


def test_the_set_never_shrinks_below_the_minimum_by_wish() -> None:
    assert wanted(sync_set(1, 2), {}, 5000) is None
    assert wanted(sync_set(1, 2, 3), {}, 5000) == {1, 3}
    assert wanted(sync_set(1, 2, min_in_sync=1), {}, 5000) == {1}
    assert wanted(sync_set(1, 2), {3: KEEPS_UP}, 5000) == {1, 3}  # a joiner makes room for a leaver


def test_one_proposal_at_a_time() -> None:
    sync = sync_set(1, 2)
    sync.propose(1, frozenset({1, 2, 3}))
    assert wanted(sync, {2: KEEPS_UP, 3: KEEPS_UP, 4: KEEPS_UP}, 0) is None


def test_reachable_members_are_those_a_write_may_hope_for() -> None:
    sync = sync_set(1, 2, 3)
    assert sync.reachable({}, 500) == 3  # all may still relink
    assert sync.reachable({}, 1000) == 1
    assert sync.reachable({2: KEEPS_UP, 3: SlaveFacts(0, 5000)}, 1000) == 2


def test_count_mode_takes_the_nth_copy_whoever_holds_it() -> None:
    assert count_mode_candidate(100, [40, 90], 1) == 100
    assert count_mode_candidate(100, [40, 90], 2) == 90
    assert count_mode_candidate(100, [40, 90], 3) == 40
    assert count_mode_candidate(100, [40], 3) is None


members = st.frozensets(st.integers(2, 5), max_size=4)


@settings(deadline=None)
@given(
    members,
    st.lists(
        st.one_of(
            st.tuples(st.just("propose"), members),
            st.tuples(st.just("learn"), members),
            st.tuples(st.just("read"), members),
            st.tuples(st.just("refuse"), st.just(frozenset())),
        ),
        max_size=20,
    ),
    st.dictionaries(st.integers(2, 5), st.integers(0, 200)),
)
def test_a_promise_never_outruns_any_possible_member(first, story, acked) -> None:
    """Whatever the controller may have decided so far, the confirm offset is held by all of it."""
    sync = SyncSet(1, first, 1, min_in_sync=1, timers=TIMERS, now_ms=0)
    possible = [sync.confirmed]
    for token, (kind, others) in enumerate(story):
        if kind == "propose" and sync.proposal is None:
            sync.propose(token, others | {1})
            possible.append(others | {1})
        elif kind == "learn":
            sync.learn(others, sync.set_epoch + 1)
            possible = [sync.confirmed]
        elif kind == "read":
            sync.learn(others, sync.set_epoch)
        elif kind == "refuse" and sync.proposal is not None:
            possible.remove(sync.proposal.members)
            sync.refused(sync.proposal.token)
        candidate = sync.confirm_candidate(200, acked)
        for group in possible:
            for member in group - {1}:
                assert candidate is None or candidate <= acked[member]


def refuse(sync: SyncSet, members: frozenset | None, now_ms: int) -> None:
    assert members is not None
    sync.propose(now_ms, members)
    sync.refused(now_ms, unfit_at_ms=now_ms)


def test_a_member_leaves_alone_after_a_joiner_was_refused() -> None:
    sync = sync_set(1, 2, 3)
    sync.linked_once.add(3)
    slaves = {2: KEEPS_UP, 4: KEEPS_UP}
    assert wanted(sync, slaves, 5_000) == {1, 2, 4}
    refuse(sync, frozenset({1, 2, 4}), 5_000)
    assert wanted(sync, slaves, 5_000) == {1, 2}
    assert wanted(sync, slaves, 60_000) == {1, 2}  # however long: the leaving goes first


def test_a_refused_joiner_pauses_longer_each_time_and_is_not_forgotten() -> None:
    sync, slaves, now_ms, pauses = sync_set(1, 2), {2: KEEPS_UP, 3: KEEPS_UP}, 0, []
    for _ in range(6):
        refuse(sync, wanted(sync, slaves, now_ms), now_ms)
        pauses.append(next(ms for ms in range(0, 10_000, 100) if wanted(sync, slaves, now_ms + ms)))
        now_ms += pauses[-1]
    assert pauses == [500, 1_000, 2_000, 4_000, 4_000, 4_000]


def test_of_several_refused_joiners_the_fit_one_joins_at_once() -> None:
    sync, slaves = sync_set(1, 2), {2: KEEPS_UP, 3: KEEPS_UP, 4: KEEPS_UP}
    refuse(sync, frozenset({1, 2, 3, 4}), 0)
    refuse(sync, wanted(sync, slaves, 0), 0)
    second = wanted(sync, slaves, 0)
    assert second == {1, 2, 4}
    sync.propose(9, second)
    sync.learn(second, 8)
    assert wanted(sync, slaves, 0) is None


def test_who_was_not_refused_joins_beside_those_that_were() -> None:
    sync = sync_set(1, 2)
    refuse(sync, frozenset({1, 2, 3}), 0)
    assert wanted(sync, {2: KEEPS_UP, 3: KEEPS_UP, 5: KEEPS_UP}, 1) == {1, 2, 5}


def test_who_lost_data_leaves_before_anything_else_below_the_minimum_too() -> None:
    sync = sync_set(1, 2)
    sync.lose(2)
    assert wanted(sync, {2: KEEPS_UP, 3: KEEPS_UP}, 0) == {1}
    assert sync.reachable({2: KEEPS_UP}, 0) == 1  # no write may hope for it
    proposal = sync.propose(1, frozenset({1}))
    assert proposal.lost == {2} and sync.union == {1, 2}
    assert sync.learn((1,), 8)
    assert not sync.went_back
    assert wanted(sync, {2: KEEPS_UP}, 0) == {1, 2}  # copied anew, it may come back


def test_a_lost_member_is_named_until_it_has_left() -> None:
    sync = sync_set(1, 2)
    sync.propose(1, frozenset({1, 2, 3}))
    sync.lose(2)
    assert wanted(sync, {}, 0) is None  # one proposal at a time
    sync.learn((1, 2, 3), 8)
    assert wanted(sync, {}, 0) == {1, 3}
    sync.propose(2, frozenset({1, 3}))
    sync.refused(2)
    assert wanted(sync, {}, 0) == {1, 3} and sync.propose(3, frozenset({1, 3})).lost == {2}


def test_a_lost_replica_outside_of_the_set_is_named_once_the_controller_heard_it() -> None:
    """It may be remembered as one that holds everything."""
    sync = sync_set(1, 2)
    sync.lose(3)
    assert wanted(sync, {2: KEEPS_UP}, 0) == {1, 2}
    sync.propose(1, frozenset({1, 2}))
    sync.refused(1, outdated=True)
    assert sync.went_back == {3}
    sync.propose(2, frozenset({1, 2}))
    sync.learn((1,), 8)  # somebody else's change
    assert sync.went_back == {3}
    sync.propose(3, frozenset({1}))
    sync.refused(3)
    assert not sync.went_back
