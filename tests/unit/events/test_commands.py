"""The kinds of commands."""

import pytest

import schemas
from events.commands import COMMANDS, ChangeSettings, ElectMaster, broker_set_of, command_kind
from events.envelope import Envelope

ENVELOPE = Envelope(bytes(16), "c", 1, "n0", 0, "asked")


def test_every_command_schema_has_its_class():
    assert sorted(cls.__name__ for cls in COMMANDS) == list(schemas.names("commands"))


@pytest.mark.parametrize("cls", COMMANDS, ids=lambda cls: cls.__name__)
def test_commands_are_frozen_and_begin_with_the_envelope(cls):
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    assert next(iter(cls.__dataclass_fields__)) == "envelope"


def test_a_command_knows_its_kind_and_its_set():
    elect = ElectMaster(ENVELOPE, "c", "broker-a", -1, False)
    assert (command_kind(elect), broker_set_of(elect)) == ("ElectMaster", "broker-a")
    assert broker_set_of(ChangeSettings(ENVELOPE, {})) is None
