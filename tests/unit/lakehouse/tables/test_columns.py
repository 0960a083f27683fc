import json
from typing import Any

import pyarrow as pa
import pytest
from msgspec import defstruct

import schemas
from events.broker_events import BrokerEventHeader, RoleChanged
from events.changes import ClusterStarted, MasterElected
from lakehouse.tables.columns import field_columns, record_json, wider

EVENT = RoleChanged(
    BrokerEventHeader(b"\x01" * 16, "c", "broker-a", 2, "i2", 5, 6), "MASTER", 3, 2, "elected"
)


def test_the_shared_part_is_flattened_and_bytes_are_hex() -> None:
    columns = field_columns(schemas.load("RoleChanged"))
    values = {c.column.name: c.value(EVENT) for c in columns}
    assert values["event_id"] == "01" * 16
    assert (values["broker_name"], values["role"], values["master_epoch"]) == (
        "broker-a",
        "MASTER",
        3,
    )
    assert "header" not in values


def test_types_and_meanings_come_from_the_schema_file() -> None:
    columns = {c.column.name: c.column for c in field_columns(schemas.load("ElectMaster"))}
    assert columns["expected_master_epoch"].type == pa.int64()
    assert columns["expected_master_epoch"].nullable
    assert not columns["broker_id"].nullable
    assert columns["evidence"].type.value_type.field("alive").type == pa.bool_()
    schema = schemas.load("ElectMaster")
    docs = {field["name"]: field["doc"] for field in schema["fields"]}
    assert columns["designate"].meaning == docs["designate"]
    assert columns["designate"].field().metadata == {b"comment": docs["designate"].encode()}


def test_records_of_several_kinds_become_json_that_names_them() -> None:
    changes = (
        ClusterStarted("c", 1, {"b": "2", "a": "1"}, ("f",)),
        MasterElected("broker-a", 1, "h:1", 1, (1, 2), 1, 1),
    )
    found = json.loads(record_json(changes))
    assert [change["kind"] for change in found] == ["ClusterStarted", "MasterElected"]
    assert list(found[0]["settings"]) == ["a", "b"]
    assert found[1]["sync_state_set"] == [1, 2]


def test_a_type_without_a_column_is_refused() -> None:
    schema = {
        "type": "record",
        "name": "X",
        "fields": [{"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["a"]}}],
    }
    with pytest.raises(TypeError, match="no column type"):
        field_columns(schema)


def test_a_wider_type_has_the_fields_of_both_and_ours_first() -> None:
    ours = pa.list_(
        pa.struct(
            [pa.field("a", pa.int64()), pa.field("b", pa.struct([pa.field("x", pa.string())]))]
        )
    )
    other = pa.list_(
        pa.field(
            "element",
            pa.struct(
                [
                    pa.field("new", pa.bool_()),
                    pa.field("b", pa.struct([pa.field("y", pa.string())])),
                ]
            ),
        )
    )
    found = wider(ours, other)
    assert [field.name for field in found.value_type] == ["a", "b", "new"]
    assert [field.name for field in found.value_type.field("b").type] == ["x", "y"]
    assert wider(found, ours) == wider(found, other) == found
    assert wider(ours, ours) == ours


@pytest.mark.parametrize(
    "other", [pa.string(), pa.int32(), pa.list_(pa.int64()), pa.struct([pa.field("a", pa.int64())])]
)
def test_types_that_hold_something_else_are_not_widened(other: pa.DataType) -> None:
    with pytest.raises(TypeError):
        wider(pa.int64(), other)
    with pytest.raises(TypeError):
        wider(pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), other))


def test_an_array_of_many_records_holds_what_each_of_them_holds() -> None:
    part = {
        "type": "record",
        "name": "Part",
        "fields": [
            {"name": "name", "type": ["null", "string"]},
            {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        ],
    }
    schema = {
        "type": "record",
        "name": "Whole",
        "fields": [
            {"name": "count", "type": ["null", "long"]},
            {"name": "share", "type": "double"},
            {"name": "digest", "type": ["null", "bytes"]},
            {"name": "times", "type": ["null", {"type": "map", "values": "long"}]},
            {"name": "names", "type": ["null", {"type": "array", "items": "string"}]},
            {"name": "part", "type": ["null", part]},
            {"name": "parts", "type": ["null", {"type": "array", "items": "regent.Part"}]},
        ],
    }
    piece, whole = defstruct("Part", ["name", "mark"]), _names_of(schema)
    made = defstruct("Whole", whole)
    records = [
        made(
            1, 0.5, b"\x01", {"b": 2, "a": 1}, ("x", "ü"), piece("n", b"ab"), (piece(None, b"cd"),)
        ),
        made(None, 1e300, None, None, None, None, None),
        made(-1, -0.0, b"", {}, (), piece(None, b"\x00\xff"), ()),
    ]
    for column in field_columns(schema):
        for some in (records, records[:1], records[1:2], records[::2], []):
            values = [column.value(record) for record in some]
            wanted = pa.array(values, column.column.type)
            found = column.array_of(some)
            assert found.type == wanted.type, column.column.name
            assert found.equals(wanted), column.column.name
            found.validate(full=True)


def _names_of(schema: dict[str, Any]) -> list[str]:
    return [field["name"] for field in schema["fields"]]
