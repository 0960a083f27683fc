"""Recorded settings as numbers and flags."""

from immutables import Map

from processors import settings_in_force as settings
from processors.state import ControllerState


def test_what_was_never_set_has_rocketmqs_default() -> None:
    state = ControllerState()
    assert settings.number(state, settings.SCAN_MASTERS) == 5000
    assert settings.number(state, settings.ELECT_RETRIES) == 3
    assert settings.flag(state, settings.NOTIFY_ROLES) and not settings.flag(state, settings.PROCESS_READS)


def test_what_was_set_counts() -> None:
    state = ControllerState(settings=Map({settings.ELECT_RETRIES: "7"}))
    assert settings.number(state, settings.ELECT_RETRIES) == 7
    assert settings.in_force(state)[settings.ELECT_RETRIES] == "7"


def test_java_reads_one_name_and_shows_another() -> None:
    assert settings.canonical_name("isProcessReadEvent") == settings.PROCESS_READS
    assert "isProcessReadEvent" in settings.names() and settings.PROCESS_READS in settings.names()
    assert (settings.canonical_value(" TRUE "), settings.canonical_value(" 5 ")) == ("true", "5")
