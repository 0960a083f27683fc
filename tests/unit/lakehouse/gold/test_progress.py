from pathlib import Path

import pytest

from lakehouse.errors import NotLanded
from lakehouse.gold.progress import (
    GOLD_PROGRESS,
    CarryError,
    Mark,
    Progress,
    Taken,
    dump,
    load,
    read_mark,
    read_progress,
    table_ids,
    take_out,
    write_progress,
)
from lakehouse.gold.rows import Carry, gold_rows
from lakehouse.gold.specs import GOLD_BY_NAME
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import lake_at
from tests.support.landed_log import lake_in
from tests.unit.lakehouse.gold.gold_cases import at, changes_of, put, wandering


def progress(offset: int) -> Progress:
    return Progress(
        offset,
        1000 + offset,
        3,
        Taken(5, 4, 9),
        1,
        {"gold/elections": "id-1"},
        b"snapshot",
        b"carry \xff",
    )


def test_what_was_written_last_comes_back_of_each_cluster(tmp_path: Path) -> None:
    lakes = [lake_in(tmp_path), lake_in(tmp_path, "o'brien")]
    ensure_tables(lakes[0], [GOLD_PROGRESS])
    for lake in lakes:
        write_progress(lake, progress(1))
    write_progress(lakes[1], progress(2))
    assert [read_progress(lake) for lake in lakes] == [progress(1), progress(2)]
    assert read_mark(lakes[1]) == progress(2).mark() == Mark(2, 1002, 3, Taken(5, 4, 9))
    take_out(lakes[1], GOLD_PROGRESS)
    assert [read_mark(lake) for lake in lakes] == [progress(1).mark(), None]


def test_without_a_table_there_is_no_progress(tmp_path: Path) -> None:
    assert read_progress(lake_in(tmp_path)) is None
    assert read_mark(lake_at(tmp_path, "c")) is None
    with pytest.raises(NotLanded):
        table_ids(lake_in(tmp_path), [GOLD_PROGRESS])


def test_a_table_made_anew_has_another_id(tmp_path: Path) -> None:
    ids = []
    for name in ("a", "b"):
        ensure_tables(lake_in(tmp_path / name), [GOLD_PROGRESS])
        ids.append(table_ids(lake_in(tmp_path / name), [GOLD_PROGRESS])["gold/progress"])
    assert len(set(ids)) == 2


def test_an_empty_carry_comes_back() -> None:
    back = load(dump(Carry()))
    assert (dict(back.open_rows), list(back.masterships)) == ({}, [])


@pytest.mark.parametrize("seed", range(6))
def test_with_the_carry_that_came_back_the_tables_end_up_as_at_once(seed: int) -> None:
    changes = changes_of(wandering(seed))
    whole, _ = gold_rows(changes, {}, at(len(changes)))
    cut = len(changes) // 2
    head, carry = gold_rows(changes[:cut], {}, at(cut))
    back = load(dump(carry))
    assert dump(back) == dump(carry)
    tail, _ = gold_rows(changes[cut:], {}, at(len(changes)), back)
    for name, table in GOLD_BY_NAME.items():
        assert put(table, head[name], tail[name]) == put(table, whole[name]), name


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"masterships":[{}]}', b"\xff\xfe", b'{"masterships":7}']
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CarryError):
        load(data)
