"""The facts that brokers report."""

import pytest

import schemas
from events.broker_events import BROKER_EVENTS, BrokerEventHeader


def test_every_broker_event_schema_has_its_class():
    assert sorted(cls.__name__ for cls in BROKER_EVENTS) == list(schemas.names("broker_events"))


@pytest.mark.parametrize("cls", BROKER_EVENTS, ids=lambda cls: cls.__name__)
def test_events_are_frozen_and_begin_with_the_header(cls):
    assert cls.__struct_config__.frozen
    assert next(iter(cls.__struct_fields__)) == "header"


def test_the_header_has_the_fields_of_its_schema():
    fields = [field["name"] for field in schemas.load("BrokerEventHeader")["fields"]]
    assert list(BrokerEventHeader.__struct_fields__) == fields
