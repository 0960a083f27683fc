"""The facts that brokers report."""

from typing import get_args

import pytest

import schemas
from events.acting_events import AboutActing
from events.broker_events import BROKER_EVENTS
from events.event_header import BrokerEventHeader
from events.majority_events import AboutMajority


def test_every_broker_event_schema_has_its_class():
    assert sorted(cls.__name__ for cls in BROKER_EVENTS) == list(schemas.names("broker_events"))


@pytest.mark.parametrize("cls", BROKER_EVENTS, ids=lambda cls: cls.__name__)
def test_events_are_frozen_and_begin_with_the_header(cls):
    assert cls.__struct_config__.frozen
    assert next(iter(cls.__struct_fields__)) == "header"


def test_the_header_has_the_fields_of_its_schema():
    fields = [field["name"] for field in schemas.load("BrokerEventHeader")["fields"]]
    assert list(BrokerEventHeader.__struct_fields__) == fields


@pytest.mark.parametrize("about", [AboutActing, AboutMajority])
def test_what_sets_and_groups_without_controllers_report_are_broker_events_too(
    about: object,
) -> None:
    assert set(get_args(about)) < set(BROKER_EVENTS)
