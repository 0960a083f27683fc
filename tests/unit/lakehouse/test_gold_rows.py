from lakehouse.gold_rows import Carry, gold_rows
from lakehouse.gold_tables import GOLD_BY_NAME
from tests.support.control_history import CLUSTER_ID, History, seen
from tests.unit.lakehouse.gold_cases import at, changes_of, event, nobody_left, put, require_sound


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
    rows, _ = gold_rows(changes_of(past), {}, at(100))
    assert set(rows) == set(GOLD_BY_NAME)
    for name, found in rows.items():
        require_sound(GOLD_BY_NAME[name], found)
        assert found or name == "gold/messages_at_risk"


def test_in_pieces_the_tables_end_up_as_at_once() -> None:
    past = eventful()
    changes = changes_of(past)
    events = {CLUSTER_ID: {"log_truncated": [event(1, at(90), from_offset=9, to_offset=5, epoch=1, reason="")]}}
    whole, _ = gold_rows(changes, events, at(100))
    for cut in range(len(changes)):
        head, carry = gold_rows(changes[:cut], {}, at(cut))
        middle, carry = gold_rows((), {}, at(cut), carry)
        tail, _ = gold_rows(changes[cut:], events, at(100), carry)
        for name, table in GOLD_BY_NAME.items():
            assert put(table, head[name], middle[name], tail[name]) == put(table, whole[name]), (cut, name)


def test_nothing_gives_no_rows() -> None:
    rows, carry = gold_rows((), {}, 0)
    assert not any(rows.values())
    assert (list(carry.masterships), any(carry.open_rows.values())) == ([], False)
    assert Carry().masterships == ()
