"""Recorded settings as numbers and flags."""

from immutables import Map

from processors.fold.rules import (
    SETTING_ELECT_RETRIES,
    SETTING_NOTIFY_ROLES,
    SETTING_PROCESS_READS,
    SETTING_SCAN_MASTERS,
)
from processors.fold.state import ControllerState
from processors.settings import recorded as settings


def test_what_was_never_set_has_rocketmqs_default() -> None:
    state = ControllerState()
    assert settings.number(state, SETTING_SCAN_MASTERS) == 5000
    assert settings.number(state, SETTING_ELECT_RETRIES) == 3
    assert settings.flag(state, SETTING_NOTIFY_ROLES) and not settings.flag(
        state, SETTING_PROCESS_READS
    )


def test_what_was_set_counts() -> None:
    state = ControllerState(settings=Map({SETTING_ELECT_RETRIES: "7"}))
    assert settings.number(state, SETTING_ELECT_RETRIES) == 7
    assert settings.in_force(state)[SETTING_ELECT_RETRIES] == "7"


def test_java_reads_one_name_and_shows_another() -> None:
    assert settings.canonical_name("isProcessReadEvent") == SETTING_PROCESS_READS
    assert settings.WITHOUT_EFFECT.keys() <= settings.in_force(ControllerState()).keys()
    assert "isProcessReadEvent" in settings.names() and SETTING_PROCESS_READS in settings.names()
    assert (settings.canonical_value(" TRUE "), settings.canonical_value(" 5 ")) == ("true", "5")


def test_a_value_that_cannot_be_is_told_with_what_can() -> None:
    assert settings.why_invalid("electMasterMaxRetryCount", "7", 2) is None
    assert settings.why_invalid("electMasterMaxRetryCount", "0", 2) == (
        "electMasterMaxRetryCount cannot be '0', it takes a whole number from 1 to 100"
    )
    assert settings.why_invalid("notifyBrokerRoleChanged", "x", 2) == (
        "notifyBrokerRoleChanged cannot be 'x', it takes true or false"
    )


def test_a_setting_that_the_active_rules_lack_is_told_with_the_rules_that_have_it() -> None:
    assert settings.why_invalid("massSilenceHoldMs", "1", 1) == (
        "massSilenceHoldMs can be set from rules 2 on, rules 1 are active"
    )
    assert settings.why_invalid("nobodys", "1", 2) == "nobodys is no setting"
    assert settings.why_invalid("nobodys", "1", 99) is None, (
        "rules that are not known here are judged elsewhere"
    )
