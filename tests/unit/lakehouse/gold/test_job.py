import shutil
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, EpochAppended, FirstMessageAcknowledged
from events.codec import encode
from lakehouse.errors import LakehouseError
from lakehouse.gold import job as gold_job
from lakehouse.gold import progress
from lakehouse.gold.failovers import EVENT_KINDS
from lakehouse.gold.fold import GoldFold, published_of
from lakehouse.gold.job import GoldJob
from lakehouse.gold.merge import merge_rows
from lakehouse.gold.merge_spark import merge_in
from lakehouse.gold.progress import GOLD_PROGRESS, read_mark
from lakehouse.gold.rows import gold_rows
from lakehouse.gold.specs import GOLD_BY_NAME, GoldTableSpec
from lakehouse.tables import left_states
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import LEFT_STATES
from lakehouse.tables.specs import BY_NAME, DECISIONS
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from tests.support.control_history import CLUSTER, CLUSTER_ID, NAME, History
from tests.support.examples import some
from tests.support.landed_log import (
    BEGAN_MS,
    Record,
    command_records,
    event_records,
    lake_in,
    land,
    outcome_records,
)
from tests.support.made_gold import Row, bring_up, job_of, rows_of
from tests.unit.lakehouse.gold.gold_cases import failed_over, other_cluster, wandering

SEED = 4
"""A wandering history with failovers, refusals, cleanings and terms in it."""


class Died(Exception):
    """Stands for the end of the process at that point."""


def spoken(history: History) -> list[Record]:
    """What brokers say of the last mastership: where its epoch began, and its first acknowledged
    message.
    """
    broker_set = history.folder.state.sets[NAME]
    head = [
        BrokerEventHeader(
            bytes([n] * 16),
            CLUSTER,
            NAME,
            broker_set.master_broker_id or 1,
            "i",
            BEGAN_MS + 100_000 + n,
            n,
        )
        for n in (1, 2)
    ]
    epoch = broker_set.master_epoch
    return event_records(
        [
            encode(EpochAppended(head[0], epoch, 900, BEGAN_MS)),
            encode(FirstMessageAcknowledged(head[1], epoch, 950)),
        ]
    )


def records_of(history: History) -> list[Record]:
    """Commands and outcomes, each outcome behind its command."""
    pairs = zip(command_records(history.records), outcome_records(history.records), strict=True)
    return [record for pair in pairs for record in pair]


HISTORY = wandering(SEED, 40)
RECORDS = [*records_of(HISTORY), *spoken(HISTORY)]


def at_once(root: Path, records: Sequence[Record]) -> dict[str, list[Row]]:
    """The gold tables of a lake where everything had landed before the first run."""
    lake = lake_in(root)
    land(lake, records)
    bring_up(job_of(lake))
    return rows_of(lake)


def test_the_tables_hold_what_the_pure_builders_give(tmp_path: Path) -> None:
    history, _ = failed_over()
    made = at_once(tmp_path, [*records_of(history), *spoken(history)])
    lake = lake_in(tmp_path)
    events = {
        CLUSTER_ID: {
            kind: read(lake, BY_NAME[f"silver/{kind}"]).to_pylist() for kind in EVENT_KINDS
        }
    }
    fold = GoldFold()
    landed = [
        (offset, BEGAN_MS + 1000 * offset, value) for offset, value in enumerate(history.records)
    ]
    changes = list(fold.changes(landed, published_of(read(lake, DECISIONS).to_pylist())))
    wanted, _ = gold_rows(changes, events, fold.at_ms)
    for name, table in GOLD_BY_NAME.items():
        assert len(made[name]) == len(wanted[name]), name
        for row in wanted[name]:
            key = [row[column] for column in table.key]
            [found] = [one for one in made[name] if [one[column] for column in table.key] == key]
            assert found == row, name
    [failover] = made["gold/failovers"]
    assert failover["unavailable_ms"] == 100_002
    assert all(row["digest_agrees"] for row in made["gold/broker_set_history"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Row]]]:
    """A lake where all of `RECORDS` has landed, and what its gold tables hold when they are made at
    once.
    """
    root = tmp_path_factory.mktemp("whole")
    made = at_once(root, RECORDS)
    shutil.rmtree(root / "gold")
    return root, made


@pytest.fixture(scope="module")
def half_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lake, with gold made when half of it had landed."""
    root = tmp_path_factory.mktemp("half")
    lake = lake_in(root)
    land(lake, RECORDS[: len(RECORDS) // 2])
    bring_up(job_of(lake))
    land(lake, RECORDS)
    return root


def copy_of(root: Path, tmp_path: Path) -> Lake:
    """The same tables in a folder of the test's own."""
    return lake_in(shutil.copytree(root, tmp_path / "copy"))


@pytest.mark.parametrize("size", [pytest.param(5, marks=pytest.mark.long), 16])
def test_in_pieces_the_tables_end_up_as_at_once(
    tmp_path: Path,
    size: int,
    whole: tuple[Path, dict[str, list[Row]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gold_job, "PIECE_COMMANDS_MAX", size)
    lake = copy_of(whole[0], tmp_path)
    jobs, taken = [job_of(lake), job_of(lake)], []
    while not taken or taken[-1]:
        # In turns, as two processes would.
        taken.append(jobs[len(taken) % 3 // 2].step().commands)
    assert sum(taken) == len(HISTORY.records) and max(taken) == size
    assert rows_of(lake) == whole[1]


def test_as_it_lands_the_tables_end_up_as_at_once(
    half_made: Path, tmp_path: Path, whole: tuple[Path, dict[str, list[Row]]]
) -> None:
    lake = copy_of(half_made, tmp_path)
    assert rows_of(lake) != whole[1]
    assert 0 < bring_up(job_of(lake)) < len(HISTORY.records)
    assert rows_of(lake) == whole[1]


@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize("merges", some([2, 0, 5]))
def test_wherever_a_run_ends_the_next_one_makes_it_whole(
    tmp_path: Path,
    merges: int,
    after_commit: bool,
    half_made: Path,
    whole: tuple[Path, dict[str, list[Row]]],
) -> None:
    lake = copy_of(half_made, tmp_path)
    mark = read_mark(lake)
    with pytest.raises(Died):
        _job_that_dies(lake, merges, after_commit).step()
    assert read_mark(lake) == mark
    bring_up(job_of(lake))
    assert rows_of(lake) == whole[1]


def _job_that_dies(lake: Lake, merges: int, after_commit: bool) -> GoldJob:
    """One that ends at its merge number `merges`, before or after the commit."""
    done: list[str] = []

    def merge(lake: Lake, table: GoldTableSpec, rows: Sequence[Row]) -> None:
        if len(done) < merges or after_commit:
            merge_rows(lake, table, rows)
        if len(done) == merges:
            raise Died
        done.append(table.name)

    return job_of(lake, merge)


def test_after_an_error_the_same_job_goes_on_from_what_the_lake_says(
    tmp_path: Path, whole: tuple[Path, dict[str, list[Row]]]
) -> None:
    lake = copy_of(whole[0], tmp_path)
    job = _job_that_dies(lake, 3, True)
    with pytest.raises(Died):
        job.step()
    job._merge = merge_rows
    assert bring_up(job) == len(HISTORY.records)
    assert rows_of(lake) == whole[1]


def _all_of_it(lake: Lake) -> None:
    shutil.rmtree(f"{lake.root}/gold")


def _one_table(lake: Lake) -> None:
    shutil.rmtree(lake.uri(GOLD_BY_NAME["gold/elections"]))


def _its_progress(lake: Lake) -> None:
    shutil.rmtree(lake.uri(GOLD_PROGRESS))


def _other_builders(lake: Lake) -> None:
    progress.BUILDERS_VERSION += 1


@pytest.mark.parametrize(
    ("gone", "same_job"),
    [(_all_of_it, True), (_one_table, True), (_its_progress, False), (_other_builders, False)],
)
def test_what_was_thrown_away_is_made_again(
    tmp_path: Path,
    gone: Callable[[Lake], None],
    same_job: bool,
    monkeypatch: pytest.MonkeyPatch,
    half_made: Path,
    whole: tuple[Path, dict[str, list[Row]]],
) -> None:
    monkeypatch.setattr(progress, "BUILDERS_VERSION", progress.BUILDERS_VERSION)
    lake = copy_of(half_made, tmp_path)
    job = job_of(lake)
    bring_up(job)
    gone(lake)
    assert bring_up(job if same_job else job_of(lake)) == len(HISTORY.records)
    assert rows_of(lake) == whole[1]


def test_a_row_that_no_history_gives_goes_with_a_new_beginning(
    tmp_path: Path, half_made: Path, whole: tuple[Path, dict[str, list[Row]]]
) -> None:
    lake = copy_of(half_made, tmp_path)
    odd = {**whole[1]["gold/refused_commands"][0], "offset": 10_000}
    merge_rows(lake, GOLD_BY_NAME["gold/refused_commands"], [odd])
    job = job_of(lake)
    job.forget()
    assert bring_up(job) == len(HISTORY.records)
    assert rows_of(lake) == whole[1]


def test_a_command_counts_once_its_outcome_has_landed(tmp_path: Path) -> None:
    history, offset = failed_over()
    commands, outcomes = command_records(history.records), outcome_records(history.records)
    lake = lake_in(tmp_path)
    land(lake, [*commands, *outcomes[:offset]])
    job = job_of(lake)
    assert bring_up(job) == offset
    assert not rows_of(lake)["gold/failovers"]
    land(lake, [*commands, *outcomes])
    assert bring_up(job) == len(commands) - offset
    assert [row["digest_agrees"] for row in rows_of(lake)["gold/broker_set_history"]][-1] is True


def test_a_broker_event_that_comes_late_changes_what_rests_on_it(tmp_path: Path) -> None:
    history, _ = failed_over()
    lake = lake_in(tmp_path)
    land(lake, records_of(history))
    job = job_of(lake)
    bring_up(job)
    assert [row["unavailable_ms"] for row in rows_of(lake)["gold/failovers"]] == [None]
    land(lake, [*records_of(history), *spoken(history)])
    step = job.step()
    assert (step.commands, step.mark.event_rows) == (0, 2)
    assert [row["unavailable_ms"] for row in rows_of(lake)["gold/failovers"]] == [100_002]
    assert job.step().rows == 0


def test_before_anything_has_landed_a_run_is_one_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not one beginning after the other: a job may wait long for its first record."""
    caplog.set_level("INFO")
    lake = lake_in(tmp_path)
    land(lake, [])
    job = job_of(lake)
    for _ in range(3):
        assert job.step().commands == 0
    assert [record.getMessage() for record in caplog.records].count(
        f"gold of cluster {CLUSTER_ID} is built from the beginning"
    ) == 1
    history, _ = failed_over()
    land(lake, records_of(history))
    assert job.step().commands == len(history.records)
    job.close()


def test_nothing_new_commits_nothing(tmp_path: Path, half_made: Path) -> None:
    lake = copy_of(half_made, tmp_path)
    bring_up(job_of(lake))
    before = set(tmp_path.rglob("_delta_log/*.json"))
    job = job_of(lake)
    assert (job.step().rows, job.step().rows) == (0, 0)
    assert set(tmp_path.rglob("_delta_log/*.json")) == before


def test_clusters_in_one_lake_do_not_see_each_other(
    tmp_path: Path, half_made: Path, whole: tuple[Path, dict[str, list[Row]]]
) -> None:
    lake = copy_of(half_made, tmp_path)
    other = lake.of("cluster-2")
    land(other, records_of(other_cluster()))
    bring_up(job_of(other))
    bring_up(job_of(lake))
    made = rows_of(other)
    assert rows_of(lake) == whole[1]
    assert [row["cluster_id"] for row in made["gold/broker_sets"]] == ["cluster-2"]
    job_of(lake).forget()
    assert read_mark(lake) is None
    assert rows_of(other) == made


def test_history_of_another_cluster_is_refused(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, records_of(other_cluster()))
    with pytest.raises(
        LakehouseError,
        match=("command 0 landed as one of cluster cluster-1, its history is of cluster cluster-2"),
    ):
        job_of(lake).step()


def test_without_a_cluster_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="no cluster has landed"):
        job_of(lake_in(tmp_path).of(None))


@pytest.mark.spark
def test_spark_merges_the_same_tables(
    tmp_path: Path, spark: Any, half_made: Path, whole: tuple[Path, dict[str, list[Row]]]
) -> None:
    lake = copy_of(half_made, tmp_path)
    assert 0 < bring_up(job_of(lake, merge_in(spark))) < len(HISTORY.records)
    assert rows_of(lake) == whole[1]


def test_the_state_behind_every_so_many_commands_is_left_for_proofs(tmp_path: Path) -> None:
    lake, every = lake_in(tmp_path), 7
    job = job_of(lake, states_every=every)
    ends = (0, 3, 11, 12, 29, len(HISTORY.records))
    for number, (first, end) in enumerate(pairwise(ends)):
        land(lake, records_of(HISTORY)[2 * first : 2 * end], number)
        bring_up(job)
    folder, expected = Folder(), {}
    for offset, value in enumerate(HISTORY.records):
        folder.apply(offset, value)
        if (offset + 1) % every == 0:
            expected[offset // every] = snapshot_codec.dump(folder)
    job.forget()
    bring_up(job)
    job.close()
    assert left_states.ranges(lake, every) == set(expected) and len(expected) > 3
    found = left_states.states(lake, every, set(expected))
    assert {r: zlib.decompress(one) for r, one in found.items()} == expected
    assert read(lake, LEFT_STATES).num_rows == len(expected), "what is there is not left again"
