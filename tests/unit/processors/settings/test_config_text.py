"""1010's text, and what 1009 may touch."""

from processors.fold.state import ControllerState
from processors.settings import config_text
from processors.settings.properties import parse

STARTUP = {
    "listenPort": "9878",
    "controllerDLegerSelfId": "n0",
    ("kafka.sasl.password"): "p",
    "kafka.sasl.jaas.config": "j",
}


def test_names_are_sorted_and_the_text_is_never_empty() -> None:
    lines = config_text.shown({}, ControllerState()).decode().splitlines()
    assert lines == sorted(lines) and "configBlackList=configBlackList;configStorePath" in lines


def test_settings_in_force_stand_beside_start_up_values_under_javas_names() -> None:
    shown = parse(config_text.shown(STARTUP, ControllerState()))
    assert shown["listenPort"] == "9878" and shown["enableElectUncleanMaster"] == "false"
    assert shown["isProcessReadEvent"] == "false" and "processReadEvent" not in shown
    assert (
        shown["scanNotActiveBrokerInterval"] == "5000" and shown["electMasterMaxRetryCount"] == "3"
    )


def test_what_lets_others_in_is_not_shown() -> None:
    shown = parse(config_text.shown(STARTUP, ControllerState()))
    assert shown["kafka.sasl.password"] == shown["kafka.sasl.jaas.config"] == config_text.SECRET


def test_the_black_list_always_holds_three_names_and_those_of_the_file() -> None:
    for name in ("configBlackList", "configStorePath", "rocketmqHome"):
        assert config_text.touches_black_list({name: ""}, {"configBlackList": "other"})
    assert config_text.touches_black_list({"other": ""}, {"configBlackList": "a;other"})
    assert not config_text.touches_black_list({"other": ""}, {})


def test_a_start_up_value_may_be_repeated_but_not_changed() -> None:
    assert config_text.fixed_at_start({"listenPort": "9878 ", "unknown": "1"}, STARTUP) == []
    assert config_text.fixed_at_start({"listenPort": "1"}, STARTUP) == ["listenPort"]
    assert config_text.fixed_at_start({"mappedFileSize": "1"}, STARTUP) == ["mappedFileSize"]
    assert config_text.fixed_at_start({"enableElectUncleanMaster": "true"}, STARTUP) == []
