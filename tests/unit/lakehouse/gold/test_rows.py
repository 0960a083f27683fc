import pytest

from events.changes import MasterElected
from lakehouse.gold.rows import (
    CHANGE_BUILDERS,
    OUTAGE_TABLES,
    SPAN_BUILDERS,
    Carry,
    decided_rows,
    gold_rows,
    outage_rows,
)
from lakehouse.gold.spans import Row
from lakehouse.gold.specs import GOLD_BY_NAME
from tests.support.acting_history import one_period
from tests.support.control_history import CLUSTER_ID, History, seen
from tests.support.majority_history import killed_leader
from tests.unit.lakehouse.gold.gold_cases import (
    at,
    changes_of,
    event,
    nobody_left,
    put,
    require_sound,
    wandering,
)


def eventful() -> History:
    """A clearing, a failover, a refusal, a change of term and a cleaning."""
    past, _ = nobody_left()
    assert past.alter((1, 2, 3), seen(1), seen(2), seen(3)).accepted
    assert past.elect(-1, seen(1, alive=False), seen(2), seen(3)).accepted
    assert not past.apply_id(9).accepted
    assert past.claim(1).accepted
    assert past.clean((1,)).accepted
    return past


def test_every_gold_table_gets_sound_rows() -> None:
    past = eventful()
    told = one_period().events()
    for cluster_id, kinds in killed_leader().events().items():
        for kind, more in kinds.items():
            told[cluster_id][kind] = [*told[cluster_id].get(kind, []), *more]
    rows, _ = gold_rows(changes_of(past), told, at(100))
    assert set(rows) == set(GOLD_BY_NAME)
    for name, found in rows.items():
        require_sound(GOLD_BY_NAME[name], found)
        assert found or name == "gold/messages_at_risk"


def test_in_pieces_the_tables_end_up_as_at_once() -> None:
    past = eventful()
    changes = changes_of(past)
    events = {
        CLUSTER_ID: {
            "log_truncated": [event(1, at(90), from_offset=9, to_offset=5, epoch=1, reason="")]
        }
    }
    whole, _ = gold_rows(changes, events, at(100))
    for cut in range(len(changes)):
        head, carry = gold_rows(changes[:cut], {}, at(cut))
        middle, carry = gold_rows((), {}, at(cut), carry)
        tail, _ = gold_rows(changes[cut:], events, at(100), carry)
        for name, table in GOLD_BY_NAME.items():
            assert put(table, head[name], middle[name], tail[name]) == put(table, whole[name]), (
                cut,
                name,
            )


@pytest.mark.parametrize("name", [*CHANGE_BUILDERS, *SPAN_BUILDERS])
def test_one_table_alone_gets_the_rows_that_it_gets_among_all(name: str) -> None:
    changes = changes_of(eventful())
    whole, _ = gold_rows(changes, {}, at(100))
    head, carry = decided_rows(changes[:3], Carry(), {name})
    tail, carry = decided_rows(changes[3:], carry, {name})
    assert (set(head), set(tail)) == ({name}, {name})
    assert put(GOLD_BY_NAME[name], head[name], tail[name]) == put(GOLD_BY_NAME[name], whole[name])


def test_outages_are_told_from_the_masterships_of_any_carry() -> None:
    changes = changes_of(eventful())
    whole, _ = gold_rows(changes, {}, at(100))
    none, carry = decided_rows(changes, Carry(), ())
    assert none == {}
    assert outage_rows(carry.masterships, {}, at(100)) == {
        name: whole[name] for name in OUTAGE_TABLES
    }


def test_nothing_gives_no_rows() -> None:
    rows, carry = gold_rows((), {}, 0)
    assert not any(rows.values())
    assert (list(carry.masterships), any(carry.open_rows.values())) == ([], False)
    assert Carry().masterships == ()


@pytest.mark.parametrize("seed", range(24))
def test_whatever_happens_the_rows_are_sound_and_say_what_was_folded(seed: int) -> None:
    past = wandering(seed)
    changes = changes_of(past)
    rows, _ = gold_rows(changes, {}, at(len(changes)))
    for name, found in rows.items():
        require_sound(GOLD_BY_NAME[name], found)
    for change in changes:
        if change.after is not None:
            [row] = holding(rows["gold/broker_set_history"], change.offset)
            assert row["master_broker_id"] == change.after.master_broker_id
            ids = {
                r["broker_id"]: r["register_check_code"]
                for r in holding(rows["gold/broker_identity"], change.offset)
            }
            assert ids == {r.broker_id: r.register_check_code for r in change.after.replicas}
            sets = holding(rows["gold/sync_state_set_intervals"], change.offset)
            assert [row["sync_state_set"] for row in sets] in (
                [list(change.after.sync_state_set)],
                [],
            )
        assert len(holding(rows["gold/controller_terms"], change.offset)) == (
            change.outcome.term > 0
        )
    won = [
        change.offset
        for change in changes
        if any(isinstance(c, MasterElected) for c in change.outcome.changes)
    ]
    assert [row["offset"] for row in rows["gold/elections"] if row["winner"] is not None] == won
    assert {row["offset"] for row in rows["gold/failovers"]} <= set(won)
    refused = [change.offset for change in changes if not change.outcome.accepted]
    assert [row["offset"] for row in rows["gold/refused_commands"]] == refused


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_pieces_give_the_same_tables(seed: int) -> None:
    changes = changes_of(wandering(seed))
    whole, _ = gold_rows(changes, {}, at(len(changes)))
    carry, runs = None, []
    for start in range(0, len(changes), 7):
        piece = changes[start : start + 7]
        rows, carry = gold_rows(piece, {}, at(start + len(piece)), carry)
        runs.append(rows)
    for name, table in GOLD_BY_NAME.items():
        assert put(table, *(rows[name] for rows in runs)) == put(table, whole[name]), name


def holding(rows: list[Row], offset: int) -> list[Row]:
    """The rows that hold after the command at `offset`."""
    return [
        r
        for r in rows
        if r["from_offset"] <= offset and (r["to_offset"] is None or r["to_offset"] > offset)
    ]
