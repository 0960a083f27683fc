"""The kinds of commands."""

import pytest

import schemas
from events.commands import COMMANDS


def test_every_command_schema_has_its_class():
    assert sorted(cls.__name__ for cls in COMMANDS) == list(schemas.names("commands"))


@pytest.mark.parametrize("cls", COMMANDS, ids=lambda cls: cls.__name__)
def test_commands_are_frozen_and_begin_with_the_envelope(cls):
    assert cls.__struct_config__.frozen
    assert "__slots__" in vars(cls)
    assert next(iter(cls.__struct_fields__)) == "envelope"
