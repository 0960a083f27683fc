"""Batches go through real Spark into real tables; only Kafka is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.landing import appends, batch_reading
from lakehouse.landing.appends import Lander
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.status import StatusFile, read_status
from lakehouse.tables import delta
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, ELECTIONS, TABLES, UNREADABLE
from tests.support import later_release
from tests.support.control_history import with_master
from tests.support.landed_log import (
    Record,
    batch_of,
    command_records,
    event_records,
    kinds,
    lake_in,
    outcome_records,
)
from tests.support.landed_log import land as land_without_spark
from tests.support.landing_in_memory import Batch

PAST = with_master(1, 2)
LINK = encode(HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out"))
LATE_LINK = later_release.event_bytes(
    later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=7, hops=[{"address": "h:1"}]
)
WARM = later_release.event_bytes(later_release.disk_warm(), celsius=61.5)
LOG: list[Record] = [
    *command_records(PAST.records),
    *outcome_records(PAST.records),
    *event_records([LINK, b"garbage"], 2),
]


def lander(lake: Lake, *folders: Path) -> Lander:
    """A job as it starts: what it knows comes from the tables."""
    job = Lander(
        lake, StatusFile(Path(lake.root)), CommitLocks(lake.folder, ()), LateSchemas(folders)
    )
    job.prepare()
    return job


def content(lake: Lake) -> dict[str, list[Any]]:
    found = {}
    for table in TABLES:
        rows = delta.read(lake, table)
        names = [name for name in rows.schema.names if name not in ("batch", "landed_at")]
        found[table.name] = rows.select(names).to_pylist()
    return found


@pytest.mark.spark
def test_spark_lands_what_the_transforms_say_and_a_repeat_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    expects, own = lake_in(tmp_path / "expected"), lake_in(tmp_path / "t")
    land_without_spark(expects, LOG)
    expected = content(expects)
    batch = spark.createDataFrame(batch_of(LOG))
    job = lander(own)
    for number in range(2):
        job.land_first(batch, number)
        job.land_details(batch, number)
    assert content(own) == expected
    # A restart without checkpoint: another job gets the same records once more.
    again = lander(own)
    again.land_first(batch, 0)
    again.land_details(batch, 0)
    assert content(own) == expected
    status = read_status(tmp_path / "t")
    assert status is not None
    assert status.landed == status.detailed
    assert status.landed["regent.commands-0"] == len(PAST.records)


class Unread:
    """A batch that nobody may read."""

    sparkSession = None


def test_what_the_first_query_has_read_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expects, own = lake_in(tmp_path / "expected"), lake_in(tmp_path / "t")
    land_without_spark(expects, LOG)
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", 2_000)
    ends = {(topic, partition): offset + 1 for topic, partition, offset, _ in LOG}
    half = {place: end // 2 for place, end in ends.items()}
    job = Lander(
        own,
        StatusFile(tmp_path / "t"),
        CommitLocks(own.folder, ()),
        LateSchemas(()),
        planned=[half, ends].__getitem__,
    )
    job.prepare()
    job.land_first(Batch(LOG), 0)
    for number in range(2):
        job.land_details(Unread(), number)
    job.close()
    assert content(own) == content(expects)


def test_what_the_first_query_has_not_read_is_read_from_the_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "SHARED_WITHIN_S", 0.0)
    commands = command_records(PAST.records)
    job = Lander(
        lake,
        StatusFile(Path(lake.root)),
        CommitLocks(lake.folder, ()),
        LateSchemas(()),
        planned=lambda batch_id: {(COMMANDS_TOPIC, 0): len(commands)},
    )
    job.prepare()
    job.land_first(Batch(commands[:1]), 0)
    job.land_details(Batch(commands), 0)
    job.close()
    registered = kinds(commands).count("RegisterBroker")
    assert delta.count_rows(lake, BY_NAME["silver/register_broker"]) == registered


@pytest.mark.spark
def test_after_a_failed_batch_nothing_is_appended_any_more(spark: Any, lake: Lake) -> None:
    job = lander(lake)
    with pytest.raises(LandingGap, match="records 0 to 2 are missing"):
        job.land_first(spark.createDataFrame(batch_of(LOG[3:5])), 0)
    assert isinstance(job.failure, LandingGap)
    with pytest.raises(Exception, match="is stopping"):
        job.land_first(spark.createDataFrame(batch_of(LOG)), 1)
    assert delta.count_rows(lake, BRONZE) == 0
    assert delta.count_rows(lake, DECISIONS) == 0


def test_a_closed_job_refuses_batches_without_calling_it_a_failure(lake: Lake) -> None:
    job = lander(lake)
    job.close()
    with pytest.raises(Exception, match="is stopping"):
        job.land_details(None, 0)
    assert job.failure is None


@pytest.mark.spark
def test_what_a_later_release_writes_lands_as_soon_as_its_schemas_are_there(
    spark: Any, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """New columns, a new table and a new field within a column, without another start; old records
    stay as they are.
    """
    folder = tmp_path_factory.mktemp("schemas")
    outcomes = [
        later_release.retold(value or b"", later_release.outcome())
        for *_, value in outcome_records(PAST.records)
    ]
    late = [(OUTCOMES_TOPIC, 0, offset, value) for offset, value in enumerate(outcomes)]
    log = [*event_records([LINK, LATE_LINK, WARM], 2), *late]
    job, of_today = lander(lake, folder), lander(lake.of("cluster-2"))
    both(job, spark, log[:-1])
    assert delta.count_rows(lake, UNREADABLE) == 2 + len(late) - 1, "nobody knows them yet"
    job.read_again_if_learned(spark)
    for schema in (later_release.link_up(), later_release.disk_warm()):
        later_release.put(folder, "broker_events", schema)
    later_release.put(folder, "outcomes", later_release.outcome())
    job.read_again_if_learned(spark)
    both(job, spark, [(BROKER_EVENTS_TOPIC, 2, 3, LATE_LINK), log[-1]])
    job.read_again(spark)
    links = (
        delta.open_table(lake, BY_NAME["silver/ha_link_up"])
        .to_pyarrow_table()
        .sort_by("log_offset")
    )
    assert links["log_offset"].to_pylist() == [0, 1, 3]
    assert links["rtt_us"].to_pylist() == [None, 7, 7] and links["hops"].to_pylist()[1] == [
        {"address": "h:1"}
    ]
    warm = deltalake.DeltaTable(f"{lake.root}/silver/disk_warm").to_pyarrow_table()
    assert (warm["celsius"].to_pylist(), warm["log_offset"].to_pylist()) == ([61.5], [2])
    decided = delta.open_table(lake, DECISIONS).to_pyarrow_table().sort_by("log_offset")
    assert decided["log_offset"].to_pylist() == list(range(len(late)))
    assert {"zone"} <= set(candidates_of(decided)), "a field within a column"
    assert delta.count_rows(lake, ELECTIONS) == 1

    # A job of this very release, for another cluster, that knows nothing of this: its records are
    # as they were.
    both(of_today, spark, LOG)
    land_without_spark(lake_in(folder / "expected", "cluster-2"), LOG)
    for table in (DECISIONS, BY_NAME["silver/ha_link_up"]):
        expected = delta.read(
            lake_in(folder / "expected", "cluster-2"), table, columns=["log_offset", "cluster_id"]
        )
        assert delta.read(lake.of("cluster-2"), table, columns=["log_offset", "cluster_id"]).equals(
            expected
        )


def both(job: Lander, spark: Any, records: list[Record]) -> None:
    """A batch, to both queries."""
    batch = spark.createDataFrame(batch_of(records))
    job.land_first(batch, 0)
    job.land_details(batch, 0)


def candidates_of(rows: pa.Table) -> list[str]:
    return [field.name for field in rows.schema.field("candidates").type.value_type]


def test_nothing_lands_without_knowing_whose_it_is(lake: Lake) -> None:
    with pytest.raises(LakehouseError, match="whose log"):
        Lander(lake.of(None), StatusFile(Path(lake.root)), CommitLocks(None, ()), LateSchemas())
