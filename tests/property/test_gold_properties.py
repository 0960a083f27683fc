"""Gold while it lands: whatever is committed between two readings, and in whatever order outcomes
come.

What a reading sees is settled when its table is opened, so commits are put in front of openings.
"""

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.gold import job as gold_job
from lakehouse.gold import progress
from lakehouse.gold.fold import GoldFold, published_of
from lakehouse.gold.now import gold_now
from lakehouse.gold.progress import GOLD_PROGRESS, read_progress
from lakehouse.gold.reader import gold_standing
from lakehouse.gold.rows import Carry, decided_rows, outage_rows
from lakehouse.gold.specs import GOLD_BY_NAME, GOLD_TABLES
from lakehouse.tables import delta
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, DECISIONS, TableSpec
from tests.support.control_history import CLUSTER_ID
from tests.support.examples import SHARE, examples
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import Row, bring_up, job_of, rows_of
from tests.unit.lakehouse.gold.gold_cases import wandering

HISTORY = wandering(4, 14)
"""Elections, refusals and failovers of one cluster."""
LAST = len(HISTORY.records) - 1
COMMANDS, OUTCOMES = command_records(HISTORY.records), outcome_records(HISTORY.records)

Commit = tuple[TableSpec, pa.Table]


@dataclass(frozen=True)
class Whole:
    """A lake where all has landed: its rows, and what gold made at once says of them."""

    bronze: pa.Table
    decisions: pa.Table
    gold: dict[str, list[Row]]

    def commands(self, first: int, end: int) -> Commit:
        return BRONZE, self.bronze.filter(
            pc.and_(
                pc.greater_equal(self.bronze["offset"], first), pc.less(self.bronze["offset"], end)
            )
        )

    def outcomes(self, offsets: list[int]) -> Commit:
        return DECISIONS, self.decisions.filter(
            pc.is_in(self.decisions["command_offset"], pa.array(offsets, pa.int64()))
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    lake = lake_in(tmp_path_factory.mktemp("whole"))
    land(lake, [*COMMANDS, *OUTCOMES])
    bring_up(job_of(lake))
    commands = read(lake, BRONZE, filters=[("topic", "=", "regent.commands")])
    return Whole(commands, read(lake, DECISIONS), rows_of(lake))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty folder, as the lake of the cluster that test histories are of."""
    return lake_in(tmp_path)


@dataclass
class Landing:
    """Commits that wait for their turn, each in front of the opening whose number says so."""

    lake: Lake
    waiting: list[tuple[int, Commit]]
    openings: int = 0
    landed: list[pa.Table] = field(default_factory=list)
    """The decisions that are committed."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    """The decisions that the last opening of their table saw."""

    def commit(self, table: TableSpec, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.lake.uri(table), rows, mode="append")
        if table is DECISIONS:
            self.landed.append(rows)

    def the_rest(self) -> None:
        while self.waiting:
            self.commit(*self.waiting.pop(0)[1])

    @contextmanager
    def between_readings(self) -> Iterator[None]:
        plain = delta.open_delta

        def opened(lake: Lake, table: TableSpec) -> deltalake.DeltaTable:
            self.openings += 1
            while self.waiting and self.waiting[0][0] <= self.openings:
                self.commit(*self.waiting.pop(0)[1])
            if table is DECISIONS:
                rows = (row for one in self.landed for row in one.to_pylist())
                self.seen = sorted(rows, key=lambda row: row["log_offset"])
            return plain(lake, table)

        delta.open_delta = opened
        try:
            yield
        finally:
            delta.open_delta = plain


def drawn(whole: Whole, chance: Random, openings_max: int) -> list[tuple[int, Commit]]:
    """Commands in order, outcomes as they come: some batches of them late, and late ones in any
    order.
    """
    cuts = [0, *sorted(chance.sample(range(1, LAST), 3)), LAST + 1]
    commands = [whole.commands(first, end) for first, end in itertools.pairwise(cuts)]
    offsets = list(range(LAST + 1))
    late = chance.sample(offsets, chance.randrange(6))
    in_time = [
        [one for one in offsets[first:end] if one not in late]
        for first, end in itertools.pairwise(cuts)
    ]
    outcomes = [whole.outcomes(some) for some in in_time if some]
    for one in late:
        outcomes.insert(chance.randrange(len(outcomes) + 1), whole.outcomes([one]))
    waiting = []
    while commands or outcomes:
        waiting.append(
            (commands if commands and (not outcomes or chance.random() < 0.5) else outcomes).pop(0)
        )
    places = sorted(chance.randrange(1, openings_max) for _ in waiting)
    return list(zip(places, waiting, strict=True))


def at_once(whole: Whole, decisions: list[dict[str, Any]], last: int) -> dict[str, list[str]]:
    """What the builders make of commands up to `last` and these decisions, all in one piece."""
    fold = GoldFold()
    times = delta.milliseconds(whole.bronze["timestamp"])
    records = list(zip(range(LAST + 1), times, whole.bronze["value"].to_pylist(), strict=True))[
        : last + 1
    ]
    rows, carry = decided_rows(list(fold.changes(records, published_of(decisions))), Carry())
    return {
        name: in_no_order(name, found)
        for name, found in {**rows, **outage_rows(carry.masterships, {}, fold.at_ms)}.items()
    }


def in_no_order(name: str, rows: list[Row]) -> list[str]:
    """As the table has them."""
    return sorted(
        map(str, pa.Table.from_pylist(rows, schema=GOLD_BY_NAME[name].schema).to_pylist())
    )


BRONZE_FIRST = [True, pytest.param(False, marks=pytest.mark.long)]
EVERY = 2 * SHARE
"""Each order meets every other opening: both together meet all, where all cases are drawn."""


@contextmanager
def empty_lake() -> Iterator[Lake]:
    with TemporaryDirectory() as folder:
        lake = lake_in(Path(folder))
        land(lake, [])
        yield lake


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(5), deadline=None)
def test_whatever_lands_between_two_readings_gold_is_as_if_made_at_once(
    whole: Whole, seed: int
) -> None:
    chance = Random(seed)
    with empty_lake() as lake:
        landing = Landing(lake, drawn(whole, chance, 150))
        job = job_of(lake)
        with landing.between_readings():
            while landing.waiting:
                job.step()
        bring_up(job)
        assert rows_of(lake) == whole.gold
        assert job.step().rows == 0
        assert gold_standing(lake).is_fresh


@given(seed=st.integers(0, 2**32), with_gold=st.booleans())
@settings(max_examples=examples(8), deadline=None)
def test_whatever_lands_between_two_readings_an_answer_is_of_one_moment(
    whole: Whole, seed: int, with_gold: bool
) -> None:
    chance = Random(seed)
    with empty_lake() as lake:
        landing = Landing(lake, drawn(whole, chance, 40))
        first = chance.randrange(3, len(landing.waiting))
        while (landing.waiting and (first := first - 1) > 0) or not _decided(landing):
            landing.commit(*landing.waiting.pop(0)[1])
        if with_gold:
            bring_up(job_of(lake))
        with landing.between_readings():
            answer = gold_now(lake, GOLD_TABLES)
        wanted = at_once(whole, landing.seen, answer.offset)
        assert {
            name: in_no_order(name, found.to_pylist()) for name, found in answer.tables.items()
        } == wanted
        landing.the_rest()
        final = gold_now(lake, GOLD_TABLES)
        assert {
            name: in_no_order(name, found.to_pylist()) for name, found in final.tables.items()
        } == {name: in_no_order(name, rows) for name, rows in whole.gold.items()}


def _decided(landing: Landing) -> bool:
    """Whether some command and some outcome are there; else there is no answer yet."""
    return bool(landing.landed) and read(landing.lake, BRONZE).num_rows > 0


@pytest.mark.parametrize("bronze_first", BRONZE_FIRST)
def test_a_batch_that_lands_at_any_opening_of_a_run_is_taken_in_with_its_outcomes(
    whole: Whole, bronze_first: bool, tmp_path: Path
) -> None:
    begun = lake_in(tmp_path / "begun")
    land(begun, [*COMMANDS[:3], *OUTCOMES[:3]])
    bring_up(job_of(begun))
    batch = [whole.commands(3, LAST + 1), whole.outcomes(list(range(3, LAST + 1)))]
    batch = batch if bronze_first else batch[::-1]
    place, reached = 0 if bronze_first else 1, True
    while reached:
        place += EVERY
        lake = lake_in(shutil.copytree(begun.root, tmp_path / f"{place}"))
        landing = Landing(lake, [(place, batch[0]), (place + 1, batch[1])])
        job = job_of(lake)
        with landing.between_readings():
            job.step()
        reached = not landing.waiting
        landing.the_rest()
        bring_up(job)
        made = rows_of(lake)["gold/broker_set_history"]
        assert all(row["digest_agrees"] for row in made), place
        assert made == whole.gold["gold/broker_set_history"]
    assert place > 10


@pytest.mark.parametrize("bronze_first", BRONZE_FIRST)
def test_a_batch_that_lands_at_any_opening_of_an_answer_does_not_tear_it(
    whole: Whole, bronze_first: bool, tmp_path: Path
) -> None:
    batch = [whole.commands(3, LAST + 1), whole.outcomes(list(range(3, LAST + 1)))]
    batch = batch if bronze_first else batch[::-1]
    place, reached = 0 if bronze_first else 1, True
    while reached:
        place += EVERY
        landing = Landing(
            lake_in(tmp_path / f"{place}"), [(place, batch[0]), (place + 1, batch[1])]
        )
        land(landing.lake, [])
        landing.commit(*whole.commands(0, 3))
        landing.commit(*whole.outcomes([0, 1, 2]))
        bring_up(job_of(landing.lake))
        with landing.between_readings():
            answer = gold_now(landing.lake, GOLD_TABLES)
        reached = not landing.waiting
        made = {name: in_no_order(name, found.to_pylist()) for name, found in answer.tables.items()}
        assert made == at_once(whole, landing.seen, answer.offset), place
    assert place > 10


def test_an_outcome_that_comes_late_is_taken_in_and_a_repeat_of_one_is_not(
    whole: Whole, lake: Lake
) -> None:
    land(lake, [])
    late, landing = LAST // 2, Landing(lake, [])
    landing.commit(*whole.commands(0, LAST + 1))
    landing.commit(*whole.outcomes([one for one in range(LAST + 1) if one != late]))
    job = job_of(lake)
    bring_up(job)
    assert gold_standing(lake).is_fresh
    table, repeat = whole.outcomes([3])
    landing.commit(table, _placed(repeat, LAST + 1))
    assert gold_standing(lake).is_fresh
    assert (bring_up(job), rows_of(lake) == whole.gold) == (0, False)
    landing.commit(*whole.outcomes([late]))
    assert "outcomes that came late" in gold_standing(lake).text()
    assert gold_now(lake, GOLD_TABLES).folded == LAST + 1
    assert bring_up(job) == LAST + 1
    assert rows_of(lake) == whole.gold
    assert gold_standing(lake).is_fresh and gold_now(lake, GOLD_TABLES).folded == 0


def test_of_two_outcomes_the_first_of_the_log_counts_also_when_it_is_read_last(
    whole: Whole, lake: Lake
) -> None:
    land(lake, [])
    landing = Landing(lake, [])
    landing.commit(*whole.commands(0, LAST + 1))
    landing.commit(*whole.outcomes([one for one in range(LAST + 1) if one != 3]))
    table, repeat = whole.outcomes([3])
    other = repeat.set_column(
        repeat.schema.get_field_index("publisher"), repeat.schema.field("publisher"), [["n9"]]
    )
    landing.commit(table, _placed(other, LAST + 1))
    bring_up(job_of(lake))
    landing.commit(table, repeat)
    assert bring_up(job_of(lake)) == LAST + 1
    assert rows_of(lake) == whole.gold


def _placed(rows: pa.Table, log_offset: int) -> pa.Table:
    """The same outcome at another place of the log."""
    column = rows.schema.get_field_index("log_offset")
    return rows.set_column(
        column, rows.schema.field("log_offset"), [pa.array([log_offset], pa.int64())]
    )


@pytest.mark.parametrize("merges", [0, 2])
def test_a_job_that_ends_while_it_folds_anew_is_followed_by_one_that_goes_on(
    whole: Whole, lake: Lake, merges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gold_job, "PIECE_COMMANDS_MAX", 5)
    land(lake, [])
    landing = Landing(lake, [])
    landing.commit(*whole.commands(0, LAST + 1))
    landing.commit(*whole.outcomes(list(range(LAST // 2, LAST + 1))))
    bring_up(job_of(lake))
    landing.commit(*whole.outcomes(list(range(LAST // 2))))
    ending = job_of(lake)
    for _ in range(merges):
        ending.step()
    ending.close()
    bring_up(job_of(lake))
    assert rows_of(lake) == whole.gold


def test_gold_of_a_release_that_did_not_count_outcomes_is_folded_anew_once(
    whole: Whole, lake: Lake
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    bring_up(job_of(lake))
    kept = read_progress(lake)
    assert kept is not None
    shutil.rmtree(lake.uri(GOLD_PROGRESS))
    older = GOLD_PROGRESS.schema.remove(GOLD_PROGRESS.schema.get_field_index("taken"))
    deltalake.DeltaTable.create(lake.uri(GOLD_PROGRESS), older, partition_by=["cluster_id"])
    row = {name: getattr(kept, name) for name in older.names if name != "cluster_id"}
    rows = [{"cluster_id": CLUSTER_ID, **row, "tables": sorted(kept.tables.items())}]
    deltalake.write_deltalake(
        lake.uri(GOLD_PROGRESS), pa.Table.from_pylist(rows, schema=older), mode="append"
    )
    assert read_progress(lake) == progress.Progress(
        **{**{n: getattr(kept, n) for n in row}, "taken": None}
    )
    assert gold_now(lake, GOLD_TABLES).folded == LAST + 1
    assert not gold_standing(lake).is_fresh
    job = job_of(lake)
    assert (bring_up(job), bring_up(job_of(lake))) == (LAST + 1, 0)
    assert rows_of(lake) == whole.gold
