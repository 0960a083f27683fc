import pytest

from lakehouse.gold import gold_carry
from lakehouse.gold.rows import Carry, gold_rows
from lakehouse.gold.specs import GOLD_BY_NAME
from tests.unit.lakehouse.gold.gold_cases import at, changes_of, put, wandering


def test_an_empty_carry_comes_back() -> None:
    back = gold_carry.load(gold_carry.dump(Carry()))
    assert (dict(back.open_rows), list(back.masterships)) == ({}, [])


@pytest.mark.parametrize("seed", range(6))
def test_with_the_carry_that_came_back_the_tables_end_up_as_at_once(seed: int) -> None:
    changes = changes_of(wandering(seed))
    whole, _ = gold_rows(changes, {}, at(len(changes)))
    cut = len(changes) // 2
    head, carry = gold_rows(changes[:cut], {}, at(cut))
    back = gold_carry.load(gold_carry.dump(carry))
    assert gold_carry.dump(back) == gold_carry.dump(carry)
    tail, _ = gold_rows(changes[cut:], {}, at(len(changes)), back)
    for name, table in GOLD_BY_NAME.items():
        assert put(table, head[name], tail[name]) == put(table, whole[name]), name


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"masterships":[{}]}', b"\xff\xfe", b'{"masterships":7}']
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(gold_carry.CarryError):
        gold_carry.load(data)
