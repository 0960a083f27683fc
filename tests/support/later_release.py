"""Records of a release that does not exist yet, and the schema files that would come with it.

Responsible for files and bytes. Knows nothing of tables.
"""

import copy
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

import schemas
from events.codec import HEADER_BYTES, MARKER, peek_fingerprint

HEADER = {
    "event_id": bytes(16),
    "cluster_name": "c",
    "broker_name": "broker-a",
    "broker_id": 1,
    "incarnation": "i",
    "at_ms": 5,
    "sequence": 0,
}


def link_up() -> dict[str, Any]:
    """HaLinkUp with an optional field more, and a record of its own in a list."""
    schema = schemas.load("HaLinkUp")
    hop = {
        "type": "record",
        "name": "Hop",
        "doc": "One.",
        "fields": [{"name": "address", "type": "string", "doc": "Where."}],
    }
    schema["fields"] += [
        {"name": "rtt_us", "type": ["null", "long"], "default": None, "doc": "Round trip, us."},
        {"name": "hops", "type": {"type": "array", "items": hop}, "default": [], "doc": "The way."},
    ]
    return schema


def disk_warm() -> dict[str, Any]:
    """A kind of broker event that nobody knows yet."""
    return {
        "type": "record",
        "name": "DiskWarm",
        "namespace": "regent",
        "doc": "A disk became warm.",
        "fields": [
            {"name": "header", "type": schemas.load("BrokerEventHeader"), "doc": "Who and when."},
            {"name": "celsius", "type": "double", "doc": "How warm, degrees Celsius."},
        ],
    }


def outcome() -> dict[str, Any]:
    """Outcome with a field more for each candidate."""
    schema = copy.deepcopy(schemas.load("Outcome"))
    candidates = next(field for field in schema["fields"] if field["name"] == "candidates")
    candidates["type"]["items"]["fields"].append(
        {"name": "zone", "type": ["null", "string"], "default": None, "doc": "Where it stands."}
    )
    return schema


def retold(data: bytes, schema: dict[str, Any]) -> bytes:
    """A record of this release as the later one would have written it; what it has more is null."""
    name, body = schema["name"], BytesIO(data[HEADER_BYTES:])
    ours = fastavro.parse_schema(
        schemas.earlier(name).get(peek_fingerprint(data)) or schemas.load(name)
    )
    unsaid = {"state_digest": b""} if name == "Outcome" else {}
    return bytes_of(
        schema,
        **unsaid
        | fastavro.schemaless_reader(
            body, ours, None, return_record_name=True, return_record_name_override=True
        ),
    )


def bytes_of(schema: dict[str, Any], **values: Any) -> bytes:
    """A record as that release would write it."""
    out = BytesIO()
    out.write(MARKER + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")))
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), values)
    return out.getvalue()


def event_bytes(schema: dict[str, Any], **values: Any) -> bytes:
    """A broker event of broker 1."""
    return bytes_of(schema, header=HEADER, **values)


def put(folder: Path, group: str, schema: dict[str, Any]) -> None:
    """Copy the schema into a folder of schemas."""
    (folder / group).mkdir(parents=True, exist_ok=True)
    (folder / group / f"{schema['name']}.avsc").write_text(json.dumps(schema), encoding="utf-8")


def put_all(folder: Path) -> None:
    """Copy all schemas of that release."""
    put(folder, "outcomes", outcome())
    for schema in (link_up(), disk_warm()):
        put(folder, "broker_events", schema)
