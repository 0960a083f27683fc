"""The table of rules versions: settings with their bounds, and what each version needs."""

import pytest

from events.codec import COMMAND_FINGERPRINTS, fingerprint_of
from events.commands import COMMANDS, DoubtBrokerSet
from processors.fold.rules import RULES, RULES_VERSION, SUPPORTED_RULES, Setting, rules_of
from schemas import earlier

# RULES 11.1
ROCKETMQ_DEFAULTS = {
    "enableElectUncleanMaster": "false",
    "scanNotActiveBrokerInterval": "5000",
    "scanInactiveMasterInterval": "5000",
    "electMasterMaxRetryCount": "3",
    "notifyBrokerRoleChanged": "true",
    "processReadEvent": "false",
}


def test_every_version_is_there_and_the_newest_forms_clusters():
    assert SUPPORTED_RULES == (1, 2, 3)
    assert RULES_VERSION == 3
    assert all(version == rules.version for version, rules in RULES.items())


def test_the_first_version_has_none_of_what_came_later():
    first = RULES[1]
    assert set(first.settings) == {"enableElectUncleanMaster", "dedupeWindowOffsets"}
    assert not any(first[2:])


def test_the_second_version_needs_the_schemas_of_its_release():
    # or new with rules 3
    grown = [cls for cls in COMMANDS if earlier(cls.__name__) or cls is DoubtBrokerSet]
    former = {mark for cls in grown for mark in earlier(cls.__name__)}
    assert RULES[2].fingerprints == set(COMMAND_FINGERPRINTS) - {
        fingerprint_of(cls) for cls in grown
    }
    assert former <= RULES[2].fingerprints


def test_the_third_version_needs_the_newest_form_of_each_command():
    assert RULES[3].fingerprints == {fingerprint_of(cls) for cls in COMMANDS}
    assert set(RULES[3].settings) - set(RULES[2].settings) == {"atRiskWaitMs"}
    assert RULES[3].settings["atRiskWaitMs"].default == "0"


def test_settings_have_rocketmqs_names_and_defaults():
    settings = RULES[2].settings
    assert {name: settings[name].default for name in ROCKETMQ_DEFAULTS} == ROCKETMQ_DEFAULTS


@pytest.mark.parametrize("rules", RULES.values(), ids=lambda rules: f"rules {rules.version}")
def test_every_default_is_valid(rules):
    assert all(setting.is_valid(setting.default) for setting in rules.settings.values())


@pytest.mark.parametrize("value", ["TRUE", "1", "", " true", "yes"])
def test_a_flag_is_true_or_false(value):
    assert not Setting("true").is_valid(value)


@pytest.mark.parametrize(
    "value", ["", "-1", "+5", "1.5", " 5", "0x5", "5_0", "²", "9", "101", "1" * 9]
)
def test_a_number_is_digits_within_bounds(value):
    assert not Setting("50", 10, 100).is_valid(value)
    assert Setting("50", 10, 100).is_valid("10")


def test_a_stand_in_for_a_later_version_has_the_newest_rules():
    assert rules_of(99) is RULES[3]
    assert rules_of(1) is RULES[1]
