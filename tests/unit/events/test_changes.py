"""The kinds of changes."""

import pytest

import schemas
from events.changes import CHANGES


def test_every_change_schema_has_its_class():
    assert sorted(cls.__name__ for cls in CHANGES) == list(schemas.names("changes"))


@pytest.mark.parametrize("cls", CHANGES, ids=lambda cls: cls.__name__)
def test_fields_of_class_and_schema_have_the_same_names_in_the_same_order(cls):
    fields = [field["name"] for field in schemas.load(cls.__name__)["fields"]]
    assert list(cls.__struct_fields__) == fields
    assert cls.__struct_config__.frozen


def test_an_outcome_can_carry_every_kind_of_change():
    outcome = schemas.load("Outcome")["fields"]
    changes = next(field for field in outcome if field["name"] == "changes")
    assert [branch["name"] for branch in changes["type"]["items"]] == [c.__name__ for c in CHANGES]
