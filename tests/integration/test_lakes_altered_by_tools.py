"""What tools that know Delta and Parquet do to a lake is found, or changes nothing that anybody
reads: restored and rolled back tables, altered checkpoints, values of partitions, rewritten files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.gold import specs
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, TableSpec
from tests.integration.test_altered_lakes import (
    ANCHORED,
    ANCHORS,
    CHECK,
    END_AGAIN,
    EVENT,
    LAYERS,
    PARTITION,
    VERIFY,
    Alter,
    Case,
    all_of,
    asked,
    careful,
    commits,
    files,
    kafka,
    lake,
    made,
    proofs_made_to_fit,
    swapped,
)
from tests.support.made_gold import bring_up, job_of
from tests.support.tampered_lake import with_sizes_put_right

__all__ = ["kafka", "lake", "made"]  # Fixtures.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ALL_WELL = (VERIFY, CHECK, LAYERS, ANCHORS)
ENDS = "the end was taken away"

Action = dict[str, Any]


def rolled_back(table: TableSpec, count: int) -> Alter:
    """The last commits are gone, and a checkpoint is of the version before them."""

    def alter(lake: Lake) -> None:
        for commit in commits(lake, table)[-count:]:
            commit.unlink()
        delta.open_table(lake, table).create_checkpoint()

    return alter


def restored(lake: Lake) -> None:
    """Bronze is what it was some versions ago, by a commit of Delta's own; nothing of what it was
    since can be travelled to.
    """
    opened = delta.open_table(lake, BRONZE)
    opened.restore(opened.version() - 3)
    opened.vacuum(0, dry_run=False, enforce_retention_duration=False)
    delta.open_table(lake, BRONZE).create_checkpoint()
    for commit in commits(lake, BRONZE):
        commit.unlink()


def with_checkpoint(change: Callable[[list[Action | None]], list[Action | None]]) -> Alter:
    """Other files in a checkpoint that readers begin with."""

    def alter(lake: Lake) -> None:
        delta.open_table(lake, BRONZE).create_checkpoint()
        [path] = (Path(lake.uri(BRONZE)) / "_delta_log").glob("*.checkpoint.parquet")
        rows = pq.read_table(path)
        place = rows.schema.get_field_index("add")
        added = pa.array(change(rows["add"].to_pylist()), rows.schema.field(place).type)
        pq.write_table(rows.set_column(place, rows.schema.field(place), added), path)

    return alter


def of_events(one: Action | None) -> bool:
    return one is not None and BROKER_EVENTS_TOPIC in one["path"]


def first_file_alone(added: list[Action | None]) -> list[Action | None]:
    """Each file of broker events is the first one."""
    first = next(one for one in added if of_events(one))
    return [first if of_events(one) else one for one in added]


def with_actions(change: Callable[[list[Action]], list[Action]]) -> Alter:
    def alter(lake: Lake) -> None:
        for commit in commits(lake, BRONZE):
            actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
            text = "".join(f"{json.dumps(one)}\n" for one in change(actions))
            commit.write_text(text, "utf-8")

    return alter


def topics_exchanged(actions: list[Action]) -> list[Action]:
    other = {COMMANDS_TOPIC: OUTCOMES_TOPIC, OUTCOMES_TOPIC: COMMANDS_TOPIC}
    for one in actions:
        if "add" in one:
            values = one["add"]["partitionValues"]
            values["topic"] = other.get(values["topic"], values["topic"])
    return actions


def of_last_year(actions: list[Action]) -> list[Action]:
    for one in actions:
        for name in {"timestamp", "inCommitTimestamp"} & set(one.get("commitInfo", {})):
            one["commitInfo"][name] -= 400 * 86_400_000
    return actions


def without_transactions(actions: list[Action]) -> list[Action]:
    return [one for one in actions if "txn" not in one]


def listed_twice(lake: Lake) -> None:
    """A copy of a file is one more file of the table."""
    commit = commits(lake, BRONZE)[-1]
    actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    added = next(one["add"] for one in actions if "add" in one)
    path = Path(lake.uri(BRONZE)) / unquote(added["path"])
    shutil.copy(path, path.with_name("copy.parquet"))
    copied = added | {"path": f"{added['path'].rpartition('/')[0]}/copy.parquet"}
    text = "".join(f"{json.dumps(one)}\n" for one in [*actions, {"add": copied}])
    commit.write_text(text, "utf-8")


def by_polars(lake: Lake) -> None:
    """The same rows in another order, other groups, another compression and other types."""
    for path in files(lake, BRONZE):
        rows = polars.read_parquet(path, hive_partitioning=False).sort("offset", descending=True)
        rows.write_parquet(path, compression="zstd", row_group_size=7)
    with_sizes_put_right(lake)


def ordered_by_value(lake: Lake) -> None:
    delta.open_table(lake, BRONZE).optimize.z_order(["value"])


def with_columns(lake: Lake) -> None:
    for table in (BRONZE, specs.FAILOVERS):
        delta.open_table(lake, table).alter.add_columns([deltalake.Field("note", "string")])


def gold_made_anew(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "gold")
    bring_up(job_of(lake))


CASES: dict[str, Case] = {
    "bronze rolled back together with its checkpoint": Case(
        rolled_back(BRONZE, 3), {VERIFY: (ENDS, END_AGAIN), CHECK: (ENDS,)}
    ),
    "bronze restored by Delta, its history vacuumed": Case(
        restored, {VERIFY: (ENDS, END_AGAIN), CHECK: (ENDS,)}
    ),
    "gold rolled back together with its checkpoint": Case(
        rolled_back(specs.BROKER_SET_HISTORY, 1), {LAYERS: ("gold/broker_set_history", "is gone")}
    ),
    "files left out of a checkpoint": Case(
        with_checkpoint(lambda added: [None if of_events(one) else one for one in added]),
        {VERIFY: (ENDS, "broker-events"), CHECK: (ENDS,)},
    ),
    "a file listed again in a checkpoint instead of another": Case(
        with_checkpoint(first_file_alone), {VERIFY: ("landed twice",), CHECK: ("landed twice",)}
    ),
    "values of the partition exchanged": Case(
        with_actions(topics_exchanged), {VERIFY: ("regent.outcomes-0", ENDS), CHECK: (ENDS,)}
    ),
    "a file's copy listed beside it": Case(
        listed_twice, {VERIFY: ("landed twice",), CHECK: ("landed twice",)}
    ),
    "two events exchanged, proofs and gold made to fit": Case(
        all_of(
            careful(BROKER_EVENTS_TOPIC, EVENT, swapped(EVENT), PARTITION),
            proofs_made_to_fit,
            gold_made_anew,
        ),
        {LAYERS: (f"regent.broker-events-{PARTITION} offset {EVENT}",), ANCHORS: (ANCHORED,)},
        quiet=(VERIFY, CHECK),
    ),
    # Rows, and names of their bytes, are the same however they are stored.
    "files written anew by Polars": Case(by_polars, {}, quiet=ALL_WELL),
    "rows ordered otherwise by Delta": Case(ordered_by_value, {}, quiet=ALL_WELL),
    # No verb asks when a commit was made, but for travelling in time by a moment.
    "times of commits altered": Case(with_actions(of_last_year), {}, quiet=ALL_WELL),
    # How far a table is its own rows say.
    "marks of landing gone from the log": Case(
        with_actions(without_transactions), {}, quiet=ALL_WELL
    ),
    "columns added": Case(with_columns, {}, quiet=ALL_WELL),
}


@pytest.mark.parametrize("what", CASES)
def test_what_tools_do_to_a_lake_is_found_or_changes_nothing(
    lake: Lake, made: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[what]
    case.alter(lake)
    for words, expected in case.found.items():
        code, said = asked(words, lake, made, "", capsys)
        assert code == 1, f"{words}: {said}"
        assert not [text for text in expected if text not in said], f"{words}: {said}"
    for words in case.quiet:
        code, said = asked(words, lake, made, "", capsys)
        assert code == 0, f"{words}: {said}"
