import pytest

from lakehouse.errors import LakehouseError
from lakehouse.gold.fold import GoldFold, Published, published_of
from processors.fold import snapshot_codec
from tests.support.control_history import CLUSTER_ID, NAME
from tests.unit.lakehouse.gold.gold_cases import (
    BEGAN_MS,
    at,
    changes_of,
    failed_over,
    landed,
    nobody_left,
)


def test_each_record_comes_once_with_the_set_before_and_after() -> None:
    past, failover = failed_over()
    changes = changes_of(past)
    assert [change.offset for change in changes] == list(range(len(past.records)))
    election = changes[failover]
    assert election.before is not None and election.before.master_broker_id == 1
    assert election.after is not None and election.after.master_broker_id == 3
    assert (election.cluster_id, election.at_ms) == (CLUSTER_ID, at(failover))
    assert changes[-1].after == past.folder.state.sets[NAME]


def test_what_is_about_no_set_has_neither_before_nor_after() -> None:
    past, _ = failed_over()
    claim = changes_of(past)[1]
    assert (claim.before, claim.after, claim.is_changed) == (None, None, False)


def test_a_refused_command_that_clears_a_dead_master_changes_the_set() -> None:
    past, refused = nobody_left()
    change = changes_of(past)[refused]
    assert not change.outcome.accepted
    assert change.is_changed


def test_garbage_is_a_record_without_a_command() -> None:
    past, _ = failed_over()
    past.append(b"garbage")
    last = changes_of(past)[-1]
    assert last.command is None
    assert last.outcome.refusal == "UNREADABLE"


def test_it_goes_on_from_a_snapshot_as_if_it_had_never_stopped() -> None:
    past, _ = failed_over()
    whole = changes_of(past)
    for cut in range(len(past.records) + 1):
        first = GoldFold()
        head = list(first.changes(landed(past)[:cut]))
        again = GoldFold(snapshot_codec.load(snapshot_codec.dump(first.folder)), first.at_ms)
        assert head + list(again.changes(landed(past)[cut:])) == whole


def test_a_hole_stops_it_with_the_offset() -> None:
    past, _ = failed_over()
    records = landed(past)
    del records[3]
    with pytest.raises(LakehouseError, match="offset 4"):
        list(GoldFold().changes(records))


def test_time_never_falls_and_an_unknown_one_is_the_issuers() -> None:
    past, _ = failed_over()
    records = [(offset, BEGAN_MS - offset, value) for offset, _, value in landed(past)]
    assert {change.at_ms for change in GoldFold().changes(records)} == {BEGAN_MS}
    unknown = [(offset, None, value) for offset, _, value in landed(past)]
    [first, *_] = GoldFold().changes(unknown)
    assert first.command is not None
    assert first.at_ms == first.command.envelope.issued_at_ms


def test_the_publishers_stamps_ride_along_and_its_digest_is_compared() -> None:
    past, failover = failed_over()
    digest = changes_of(past)[failover].outcome.digest.hex()
    phases = {"detected": 5, "applied": 9}
    rows = [
        {
            "command_offset": failover,
            "digest": digest,
            "publisher": "n0",
            "published_at_ms": 7,
            "phases": list(phases.items()),
        },
        {
            "command_offset": failover,
            "digest": "00" * 32,
            "publisher": "n1",
            "published_at_ms": 8,
            "phases": [],
        },
    ]
    stamped = changes_of(past, published_of(rows))
    assert (stamped[failover].outcome.publisher, stamped[failover].outcome.phases) == ("n0", phases)
    assert stamped[failover].digest_agrees is True
    assert stamped[failover - 1].digest_agrees is None
    wrong = changes_of(past, {failover: Published("00" * 32, "n0", 7, {})})
    assert wrong[failover].digest_agrees is False
