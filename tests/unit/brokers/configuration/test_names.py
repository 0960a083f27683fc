"""The settings of a broker have one name each, here and there (PROTOCOL 4.19)."""

from brokers.configuration.names import FACTS, NAMES, SETTINGS
from brokers.process.config import BrokerConfig


def test_every_setting_of_a_broker_says_from_when_on_a_change_of_it_counts() -> None:
    assert set(SETTINGS) == set(BrokerConfig.model_fields)


def test_no_name_of_rocketmq_means_two_things() -> None:
    theirs = [one.theirs for one in SETTINGS.values() if one.theirs]
    assert len(NAMES.ours) == len(theirs) == len({*theirs} - {*FACTS} - {*SETTINGS})
