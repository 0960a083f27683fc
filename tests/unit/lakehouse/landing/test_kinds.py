from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import MalformedRecord, UnknownFingerprint, encode
from lakehouse.landing.kinds import RELEASED, Catalogue
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.tables.specs import BY_NAME, TABLES
from tests.support import later_release
from tests.support.later_release import event_bytes

NOW = encode(HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out"))
LATE = event_bytes(
    later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=7, hops=[{"address": "h:1"}]
)
WARM = event_bytes(later_release.disk_warm(), celsius=61.5)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    later_release.put(tmp_path, "broker_events", later_release.link_up())
    later_release.put(tmp_path, "broker_events", later_release.disk_warm())
    return Catalogue(LateSchemas([tmp_path]).of)


def test_the_release_alone_knows_its_own_kinds() -> None:
    assert set(RELEASED.tables) == {table.name for table in TABLES}
    assert RELEASED.read(NOW).table is BY_NAME["silver/ha_link_up"]
    for data in (LATE, WARM):
        with pytest.raises(UnknownFingerprint):
            RELEASED.read(data)


def test_a_late_field_is_a_column_more_that_may_be_null(catalogue: Catalogue) -> None:
    before = catalogue.read(NOW)
    late = catalogue.read(LATE)
    names = [column.name for column in late.table.columns]
    assert names == [*(column.name for column in before.table.columns), "rtt_us", "hops"]
    assert all(column.nullable for column in late.table.columns[-2:])
    assert {field.column.name: field.value(late.record) for field in late.fields}["rtt_us"] == 7
    after = catalogue.read(NOW)
    assert (after.table, after.fields) == (late.table, before.fields), (
        "records of today fill what they have"
    )


def test_a_late_kind_is_a_table_of_its_own(catalogue: Catalogue) -> None:
    reading = catalogue.read(WARM)
    assert (reading.table.name, reading.table.kind, reading.record.celsius) == (
        "silver/disk_warm",
        "DiskWarm",
        61.5,
    )
    assert reading.table.key[0] == reading.table.partition_by[0] == "cluster_id"
    assert catalogue.tables["silver/disk_warm"] is reading.table
    assert reading.table.checks == BY_NAME["silver/ha_link_up"].checks


def test_what_a_table_in_the_lake_has_more_is_taken_over(catalogue: Catalogue) -> None:
    table = catalogue.read(NOW).table
    catalogue.fit(
        table.name, pa.schema([*table.schema, pa.field("of_another_release", pa.int64())])
    )
    assert catalogue.tables[table.name].schema.names[-1] == "of_another_release"
    known = catalogue.tables[table.name]
    catalogue.fit(table.name, table.schema)
    assert catalogue.tables[table.name] is known, "nothing is taken away"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ({"name": "direction", "type": "long", "doc": "A number now."}, 1, "int64 is not string"),
        (
            {"name": "heading", "type": "string", "doc": ("Under another name.")},
            "out",
            "it has no direction",
        ),
        (
            {
                "name": "direction",
                "type": {"type": "enum", "name": "D", "symbols": ["a"]},
                "doc": "A word.",
            },
            "a",
            "no column type",
        ),
    ],
)
def test_a_schema_that_does_not_fit_its_table_explains_nothing(
    tmp_path: Path, field: dict[str, Any], value: object, said: str
) -> None:
    schema = later_release.link_up()
    schema["fields"] = [field if one["name"] == "direction" else one for one in schema["fields"]]
    later_release.put(tmp_path, "broker_events", schema)
    catalogue = Catalogue(LateSchemas([tmp_path]).of)
    data = event_bytes(schema, peer_broker_id=2, rtt_us=None, hops=[], **{field["name"]: value})
    with pytest.raises(MalformedRecord, match=said):
        catalogue.read(data)
    assert catalogue.tables["silver/ha_link_up"] is BY_NAME["silver/ha_link_up"]
