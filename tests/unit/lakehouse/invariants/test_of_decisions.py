"""Each invariant of decisions: a sound history keeps it, an altered one breaks it, at that offset
and no other.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from events.changes import (
    BrokerIdApplied,
    BrokerSetImported,
    LeadershipClaimed,
    MasterElected,
    SyncStateSetAltered,
)
from lakehouse.invariants.invariants import BY_NAME, OF_DECISIONS, judge
from lakehouse.invariants.rows import Decided
from tests.support.judged_history import (
    altered,
    at_change,
    decided,
    imported_history,
    sound_history,
)

SOUND = decided(sound_history().records)
IMPORTED = decided(imported_history().records)

Case = tuple[list[Decided], int]
"""Rows, and the index of the row to blame."""


def changed(rows: list[Decided], kind: type, nth: int = 0, **fields: object) -> Case:
    index = at_change(rows, kind, nth)
    return altered(rows, index, kind, **fields), index


def of_old_term() -> Case:
    """A command of term 1 that was decided after term 2 began."""
    index = at_change(SOUND, MasterElected, 2)
    row = SOUND[index]
    assert row.command is not None
    old = replace(row.command, envelope=replace(row.command.envelope, term=1))
    return [*SOUND[:index], replace(row, command=old), *SOUND[index + 1 :]], index


def late_claim() -> Case:
    """A claim that expected another term, and won."""
    index = at_change(SOUND, LeadershipClaimed, 1)
    row = SOUND[index]
    assert row.command is not None
    return [
        *SOUND[:index],
        replace(row, command=replace(row.command, expected_term=0)),
        *SOUND[index + 1 :],
    ], index


def unread_but_decided() -> Case:
    index = at_change(SOUND, SyncStateSetAltered)
    return [*SOUND[:index], replace(SOUND[index], command=None), *SOUND[index + 1 :]], index


BROKEN: list[tuple[str, Callable[[], Case], str]] = [
    ("terms_only_grow", lambda: changed(SOUND, LeadershipClaimed, 1, term=1), "term 1 after 1"),
    ("no_decision_by_an_old_term", of_old_term, "ElectMaster of term 1 was decided in term 2"),
    ("no_decision_by_an_old_term", late_claim, "expected term 0 won in term 1"),
    ("no_decision_by_an_old_term", unread_but_decided, "nobody could read"),
    (
        "epochs_only_grow",
        lambda: changed(SOUND, MasterElected, 1, master_epoch=1),
        "master epoch 1 after 1",
    ),
    (
        "epochs_only_grow",
        lambda: changed(SOUND, MasterElected, 2, master_epoch=1),
        "master epoch 1 after 2",
    ),
    (
        "epochs_only_grow",
        lambda: changed(IMPORTED, BrokerSetImported, 1, master_epoch=6),
        "imported master epoch 6 after 7",
    ),
    (
        "epochs_only_grow",
        lambda: changed(IMPORTED, BrokerSetImported, 1, master_epoch=7, master_broker_id=2),
        "imported master epoch 7 after 7",
    ),
    (
        "epochs_only_grow",
        lambda: changed(IMPORTED, MasterElected, 0, master_epoch=8),
        "master epoch 8 after 8",
    ),
    (
        "set_epochs_only_grow",
        lambda: changed(SOUND, SyncStateSetAltered, 0, sync_state_set_epoch=1),
        "set epoch 1 after 1",
    ),
    (
        "set_epochs_only_grow",
        lambda: changed(SOUND, MasterElected, 1, sync_state_set_epoch=2),
        "set epoch 2 after 2",
    ),
    (
        "set_epochs_only_grow",
        lambda: changed(
            IMPORTED, BrokerSetImported, 1, sync_state_set_epoch=9, sync_state_set=(1,)
        ),
        "imported set epoch 9 after 9",
    ),
    (
        "master_in_its_sync_state_set",
        lambda: changed(SOUND, SyncStateSetAltered, 0, sync_state_set=(2, 3)),
        "master 1 is not in",
    ),
    (
        "master_in_its_sync_state_set",
        lambda: changed(SOUND, MasterElected, 0, sync_state_set=(2,)),
        "master 1 is not in",
    ),
    (
        "one_broker_per_id",
        lambda: changed(SOUND, BrokerIdApplied, 1, broker_id=1),
        "id 1 was given to h2:10911, it was h1:10911's",
    ),
    (
        "one_broker_per_id",
        lambda: changed(SOUND, BrokerIdApplied, 2, broker_id=1, register_check_code=""),
        "id 1 was given away again, the next one was 3",
    ),
]


@pytest.mark.parametrize("name", [invariant.name for invariant in OF_DECISIONS])
def test_sound_histories_keep_it(name: str) -> None:
    for rows in (SOUND, IMPORTED):
        assert judge(rows, invariants=(BY_NAME[name],))[1] == []


@pytest.mark.parametrize(
    ("name", "case", "said"), BROKEN, ids=[f"{one[0]}-{one[2][:30]}" for one in BROKEN]
)
def test_a_broken_one_is_found_where_it_breaks_first(
    name: str, case: Callable[[], Case], said: str
) -> None:
    rows, index = case()
    found = judge(rows, invariants=(BY_NAME[name],))[1]
    assert found, "not found"
    assert (found[0].offset, found[0].topic, found[0].invariant) == (index, "regent.commands", name)
    assert said in found[0].said


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert {name for name, _, _ in BROKEN} == {invariant.name for invariant in OF_DECISIONS}


def test_a_check_code_is_not_told_whole() -> None:
    """Its second half is what a broker proves itself with."""
    rows, _ = changed(SOUND, BrokerIdApplied, 1, broker_id=1)
    assert "secret" not in str(judge(rows)[1])


def test_a_command_that_did_not_land_is_no_old_term() -> None:
    rows = [replace(row, command=None, landed=False) for row in SOUND]
    assert judge(rows)[1] == []
