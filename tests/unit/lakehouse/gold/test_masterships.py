from lakehouse.gold.masterships import masterships, successions
from tests.support.control_history import History, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    OTHER_CLUSTER_ID,
    at,
    changes_of,
    failed_over,
    nobody_left,
    other_cluster,
)


def test_a_mastership_ends_where_the_next_one_begins() -> None:
    past, failover = failed_over()
    first, second = masterships(changes_of(past))
    assert (first.master, first.epoch, first.end_offset, first.end_ms) == (
        1,
        1,
        failover,
        at(failover),
    )
    assert (second.master, second.epoch, second.offset, second.end_offset) == (3, 2, failover, None)
    assert [one.broker_id for one in second.evidence] == [1, 2, 3]


def test_a_cleared_master_leaves_a_time_without_one() -> None:
    past, refused = nobody_left()
    first, second = masterships(changes_of(past))
    assert (first.end_offset, second.offset) == (refused, refused + 1)
    assert second.epoch > first.epoch + 1


def test_after_a_set_was_cleaned_the_next_master_succeeds_nobody() -> None:
    past = with_master(1, replicas=(1,))
    assert past.clean(None, living=True).accepted
    cleaned = len(past.records) - 1
    assert past.apply_id(2).accepted
    assert past.register(2).accepted
    assert past.elect(2).accepted
    found = masterships(changes_of(past))
    assert [(one.master, one.gone_ms) for one in found] == [(1, at(cleaned)), (2, None)]
    assert list(successions(found)) == []


def test_an_imported_master_is_one_and_an_import_told_again_is_the_same() -> None:
    past = History()
    assert past.import_set(1, 2).accepted
    assert past.import_set(1, 2).accepted
    [found] = masterships(changes_of(past))
    assert (found.master, found.epoch, found.evidence) == (1, 7, ())


def test_clusters_do_not_succeed_each_other() -> None:
    past, _ = failed_over()
    found = masterships(changes_of(past) + changes_of(other_cluster()))
    pairs = list(successions(found))
    assert [(old.epoch, new.epoch, new.cluster_id) for old, new in pairs] == [(1, 2, "cluster-1")]
    assert found[-1].cluster_id == OTHER_CLUSTER_ID


def test_in_pieces_they_are_the_same() -> None:
    past, _ = nobody_left()
    changes = changes_of(past)
    for cut in range(len(changes)):
        assert masterships(changes[cut:], masterships(changes[:cut])) == masterships(changes)
