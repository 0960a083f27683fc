"""The schema files: documented, complete, and never edited in silence."""

import json

import pytest

import schemas


def nodes(schema):
    """Yield each named type inside a schema."""
    if isinstance(schema, list):
        for branch in schema:
            yield from nodes(branch)
    elif isinstance(schema, dict):
        if schema["type"] in ("record", "fixed", "enum"):
            yield schema
        for field in schema.get("fields", ()):
            yield from nodes(field["type"])
        for part in ("items", "values"):
            yield from nodes(schema.get(part, []))


@pytest.mark.parametrize("name", schemas.names())
def test_every_record_and_every_field_says_what_it_means(name):
    for node in nodes(schemas.load(name)):
        if node["type"] == "record":
            assert node["doc"].strip().endswith("."), node["name"]
        for field in node.get("fields", ()):
            assert field["doc"].strip().endswith("."), (node["name"], field["name"])


@pytest.mark.parametrize("name", schemas.names())
def test_a_loaded_schema_names_each_type_once_and_needs_no_other_file(name):
    names = [node["name"] for node in nodes(schemas.load(name))]
    assert len(names) == len(set(names))
    text = json.dumps(schemas.load(name))
    for reference in schemas.names("types"):
        used = f'"regent.{reference}"' in text or f'"name": "{reference}"' in text
        assert not used or f'"name": "{reference}"' in text


@pytest.mark.parametrize("name", schemas.names("commands"))
def test_the_envelope_is_the_first_field_of_every_command(name):
    first = schemas.load(name)["fields"][0]
    assert first["name"] == "envelope"
    assert first["type"]["name"] == "Envelope"


def test_optional_fields_default_to_null():
    for name in schemas.names():
        for node in nodes(schemas.load(name)):
            for field in node.get("fields", ()):
                if isinstance(field["type"], list) and field["type"][0] == "null":
                    assert field["default"] is None, (name, field["name"])


def test_the_callers_copy_is_its_own():
    schemas.load("Outcome")["fields"].clear()
    assert schemas.load("Outcome")["fields"]


def test_a_former_schema_is_kept_under_its_fingerprint():
    former = schemas.earlier("Outcome")
    assert set(former) == {"c9d8fa550e432cc1", "0b0705af0bd96450"}
    assert former["c9d8fa550e432cc1"] != schemas.load("Outcome")
    assert schemas.earlier("ClaimLeadership") == {}


def test_an_unknown_name_is_refused():
    with pytest.raises(schemas.SchemaNotFound):
        schemas.load("NoSuchRecord")


def test_every_record_of_the_log_has_a_released_fingerprint():
    records = [n for g in ("commands", "outcomes", "broker_events") for n in schemas.names(g)]
    assert sorted(schemas.released_fingerprints()) == sorted(records)
