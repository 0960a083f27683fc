"""What is appended to a log that may have lost decisions, and what becomes of its sets."""

from itertools import count

import pytest

from infra.controllers.log_doubts import CAUSE, ISSUER, Doubts, doubts_behind
from infra.problems import Problem
from processors.fold.folder import Folder
from tests.support.control_history import NAME, History, seen, verdicts, with_master

WALL_MS = 1_700_000_000_000


def doubts(history: History) -> tuple[Folder, Doubts]:
    """The folder of a reader of that log, gone on over what is appended."""
    folder, numbers = Folder(), count(1 << 64)
    for offset, data in enumerate(history.records):
        folder.apply(offset, data)
    return folder, doubts_behind(folder, lambda: next(numbers).to_bytes(16, "big"), WALL_MS)


def appended(history: History) -> Doubts:
    found = doubts(history)[1]
    for record in found.records:
        applied = history.append(record.value)
        assert applied.outcome.accepted and applied.digest_agrees and applied.record is not None
        assert (applied.record.envelope.issuer, applied.record.envelope.cause) == (ISSUER, CAUSE)
    return found


def test_every_set_is_uncertain_from_the_end_of_the_log_on() -> None:
    history = with_master(1, 2, 3)
    history.import_set(1, 2, broker_name="broker-b")
    end = len(history.records)
    found = appended(history)
    assert found.sets == (NAME, "broker-b") and found.activated is None
    assert [record.offset for record in found.records] == [end, end + 1]
    sets = history.folder.state.sets.values()
    assert all(
        one.uncertain and one.master_broker_id is None and not one.sync_state_set for one in sets
    )


def test_the_folder_ends_where_the_log_ends_then() -> None:
    history = with_master(1, 2)
    folder, found = doubts(history)
    for record in found.records:
        history.append(record.value)
    assert folder.digest == history.folder.digest and folder.offset == history.folder.offset


def test_a_member_whose_leaving_was_lost_is_not_elected_before_all_are_compared() -> None:
    """One lost decision: 3 had left the set. 1 and 2 acknowledged more, and come back a moment
    later.
    """
    history = with_master(1, 2, 3)
    appended(history)
    stale = seen(3, offset=100)
    assert not history.elect(-1, stale).accepted
    outcome = history.elect(-1, stale, seen(1, offset=300), seen(2, offset=290))
    assert (
        outcome.accepted
        and history.set.master_broker_id == 1
        and verdicts(outcome)[3] == "LOWER_OFFSET"
    )
    assert outcome.labels == ()


def test_a_log_under_older_rules_gets_those_that_can_doubt() -> None:
    history = with_master(1, 2, rules=2)
    found = appended(history)
    assert found.activated == 3 and history.folder.state.rules_version == 3
    assert len(found.records) == 2 and history.set.uncertain == (1, 2, 3)


def test_a_log_without_sets_has_nothing_to_doubt() -> None:
    assert doubts(History())[1] == Doubts((), (), None)
    history = with_master(1)
    history.clean(None, living=True)
    assert doubts(history)[1].records == ()


def test_what_the_rules_refuse_is_told() -> None:
    history = with_master(1, 2)
    folder = Folder()
    for offset, data in enumerate(history.records):
        folder.apply(offset, data)
    with pytest.raises(Problem, match="the rules refuse DoubtBrokerSet: COMMAND_ID_REUSED"):
        doubts_behind(folder, lambda: bytes(15) + b"\x01", WALL_MS)
