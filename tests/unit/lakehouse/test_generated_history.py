"""The generated histories that big tests and benchmarks rest on: repeatable, sound, and as eventful
as they claim.
"""

from collections import Counter
from collections.abc import Mapping

import pytest

from events.broker_events import FirstMessageAcknowledged, HaLinkUp, HeartbeatGap, LogTruncated
from events.codec import decode
from events.outcomes import Outcome
from lakehouse.gold.fold import GoldFold
from lakehouse.gold.masterships import masterships, successions
from lakehouse.invariants.invariants import judge
from lakehouse.invariants.rows import Decided, Reported
from processors.fold.folder import Folder
from processors.fold.state import BrokerSet
from tests.support.generated_blows import POWER_LOSS_BYTES_MAX
from tests.support.generated_history import GeneratedHistory, generate

COMMANDS, SETS = 2_000, 6


@pytest.fixture(scope="module")
def history() -> GeneratedHistory:
    return generate(COMMANDS, SETS, seed=3)


def outcomes(history: GeneratedHistory) -> list[Outcome]:
    found = [decode(data) for data in history.outcomes]
    assert all(isinstance(one, Outcome) for one in found)
    return found  # type: ignore[return-value]


def folded(history: GeneratedHistory) -> Mapping[str, BrokerSet]:
    folder = Folder()
    folder.apply_many(0, history.commands)
    return folder.state.sets


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(
    history: GeneratedHistory,
) -> None:
    assert generate(COMMANDS, SETS, seed=3) == history
    assert generate(COMMANDS, SETS, seed=4).commands[50:] != history.commands[50:]


def test_brokers_live_in_the_network_that_was_asked_for(history: GeneratedHistory) -> None:
    elsewhere = generate(COMMANDS, SETS, seed=3, network="127.1")
    sets = [folded(one) for one in (history, elsewhere)]
    assert {name: one.master_broker_id for name, one in sets[0].items()} == {
        name: one.master_broker_id for name, one in sets[1].items()
    }
    told = [each.address for one in sets[1].values() for each in one.replicas] + [
        each.ha_address or "" for one in sets[1].values() for each in one.replicas
    ]
    assert len(told) == 6 * SETS and all(one.startswith("127.1.") for one in told)
    assert elsewhere.blows == history.blows


def test_outcomes_are_those_of_the_fold_and_some_are_published_twice(
    history: GeneratedHistory,
) -> None:
    folder = Folder()
    digests = [
        folder.apply(offset, data).outcome.digest for offset, data in enumerate(history.commands)
    ]
    published = outcomes(history)
    assert len(history.commands) == COMMANDS and len(published) > COMMANDS
    assert {one.command_offset for one in published} == set(range(COMMANDS))
    assert all(one.digest == digests[one.command_offset] for one in published)


def test_it_has_what_a_long_life_has(history: GeneratedHistory) -> None:
    refusals = Counter(one.refusal for one in outcomes(history))
    assert {"MASTER_STILL_EXIST", "MASTER_NOT_AVAILABLE", "SET_EPOCH_FENCED", "TERM_MOVED"} <= set(
        refusals
    )
    labels = {label for one in outcomes(history) for label in one.labels}
    assert {"AT_RISK", "DESIGNATED", "REPEAT"} <= labels
    assert {blow.kind for blow in history.blows} == {"killed", "silent", "handed over", "power"}
    kinds = Counter(type(decode(data)) for partition in history.events for data in partition)
    assert (
        kinds[HeartbeatGap] > 50
        and kinds[LogTruncated] > 10
        and kinds[FirstMessageAcknowledged] > 100
        and kinds[HaLinkUp] > 100
    )


def test_each_blow_is_a_failover_of_the_history(history: GeneratedHistory) -> None:
    records = zip(range(COMMANDS), history.commands_ms, history.commands, strict=True)
    found = {
        new.offset: (old, new)
        for old, new in successions(masterships(list(GoldFold().changes(records))))
    }
    assert sorted(found) == [blow.election_offset for blow in history.blows]
    for blow in history.blows:
        old, new = found[blow.election_offset]
        assert (old.master, new.master) == (blow.old_master, blow.new_master)
        assert new.at_ms >= blow.began_ms


def test_no_invariant_is_violated_by_it(history: GeneratedHistory) -> None:
    folder, rows = Folder(), []
    for offset, data in enumerate(history.commands):
        applied = folder.apply(offset, data)
        rows.append(Decided(offset, applied.record, applied.outcome))
    said = [
        Reported(partition, offset, decode(data))  # type: ignore[arg-type]
        for partition, values in enumerate(history.events)
        for offset, data in enumerate(values)
    ]
    assert judge([*rows, *said])[1] == []


def test_what_only_a_former_master_had_is_cut_when_it_follows_again(
    history: GeneratedHistory,
) -> None:
    """And nothing else is, unless power was lost or a set had only one member left."""
    told = sorted(
        (decode(data) for values in history.events for data in values),
        key=lambda one: one.header.at_ms,
    )  # type: ignore[union-attr]
    cuts = [
        (one.header.broker_name, one.from_offset - one.to_offset)
        for one in told
        if isinstance(one, LogTruncated)
    ]
    tails = Counter(
        (blow.broker_name, blow.tail_bytes) for blow in history.blows if blow.tail_bytes
    )
    missing = tails - Counter(cuts)
    assert tails.total() > 50 and missing.total() <= SETS, (
        "the end of the history may come before the last one of each set"
    )
    assert max(size for _, size in cuts) <= POWER_LOSS_BYTES_MAX


def test_records_are_dense_and_their_times_never_fall(history: GeneratedHistory) -> None:
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, partition, offset, at_ms, _ in history.records():
        before_offset, before_ms = last.get((topic, partition), (-1, 0))
        assert offset == before_offset + 1 and at_ms >= before_ms
        last[topic, partition] = (offset, at_ms)
