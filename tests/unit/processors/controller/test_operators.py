"""What operators ask of controllers: settings, rules, configuration, log levels."""

import json

import pytest

from events.properties import parse
from processors.controller import effects as fx
from tests.support.controller_rig import Log, Rig

UNCLEAN = "enableElectUncleanMaster"


def change(rig: Rig, settings: object):  # type: ignore[no-untyped-def]
    answer = rig.request(19004, {}, json.dumps({"settings": settings}).encode())
    assert answer is not None
    return answer


def pair() -> tuple[Rig, Rig]:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    return leader, standby


def test_a_change_is_recorded_and_in_force_at_once() -> None:
    rig = Rig().lead()
    assert change(rig, {UNCLEAN: "true"}).code == 0
    assert (
        rig.published[-1].kind == "ChangeSettings" and rig.published[-1].cause == "operator_request"
    )
    assert rig.state.setting(UNCLEAN) == "true"


def test_a_change_to_what_is_so_already_is_not_recorded() -> None:
    rig = Rig().lead()
    before = len(rig.log.records)
    assert change(rig, {UNCLEAN: "false"}).code == 0
    assert len(rig.log.records) == before


@pytest.mark.parametrize(("settings", "said"), [
    ({UNCLEAN: "maybe"}, "INVALID_SETTING"),
    ({"noSuchThing": "1"}, "no such setting: noSuchThing"),
    ({UNCLEAN: 1}, "of texts"),
    ([1], "of texts"),
    ({UNCLEAN: "x" * 2_000}, "characters"),
])  # fmt: skip
def test_what_is_no_valid_change_is_refused_with_code_1(settings: object, said: str) -> None:
    rig = Rig().lead()
    answer = change(rig, settings)
    assert answer.code == 1 and said in (answer.remark or "")
    assert rig.state.setting(UNCLEAN) == "false"


def test_mqadmin_changes_a_setting_on_any_controller() -> None:
    leader, standby = pair()
    standby.request(1009, {}, b"enableElectUncleanMaster=TRUE\n")
    (forward,) = standby.take(fx.ForwardToLeader)
    answer = leader.request(1009, forward.request.ext, forward.request.body)
    assert answer is not None and answer.code == 0 and leader.state.setting(UNCLEAN) == "true"
    shown = leader.request(1010)
    assert shown is not None and parse(shown.body)[UNCLEAN] == "true"


@pytest.mark.parametrize(("body", "code", "said"), [
    (b"", 0, ""),
    (b"someFutureKey=1\n", 0, ""),
    (b"configStorePath=/x\nenableElectUncleanMaster=true\n", 16, "black list"),
    (b"rocketmqHome=/x", 16, "black list"),
    (b"enableElectUncleanMaster=perhaps\n", 1, "INVALID_SETTING"),
    (b"a=\xff", 1, "string2Properties"),
    (b"a=1\n" * 20_000, 1, "allowed are 65536"),
])  # fmt: skip
def test_1009_row_by_row(body: bytes, code: int, said: str) -> None:
    rig = Rig().lead()
    answer = rig.request(1009, {}, body)
    assert answer is not None and answer.code == code and said in (answer.remark or "")
    assert rig.state.setting(UNCLEAN) == "false"


def test_the_log_level_is_this_process_own_affair() -> None:
    _, standby = pair()
    answer = standby.request(19007, {"level": "debug", "logger": "regent"})
    assert answer is not None and answer.code == 0
    assert standby.take(fx.SetLogLevel) == [fx.SetLogLevel("DEBUG", "regent")]
    assert standby.request(19007, {"level": "DEBUG"}) is not None and standby.take(
        fx.SetLogLevel
    ) == [fx.SetLogLevel("DEBUG", None)]
    invented = standby.request(19007, {"level": "debug", "logger": "invented.by.somebody"})
    assert (
        invented is not None
        and invented.code == 1
        and "no logger" in (invented.remark or "")
        and not standby.take(fx.SetLogLevel)
    )
    refused = standby.request(19007, {"level": "LOUD"})
    assert refused is not None and refused.code == 1


def beat(leader: Rig, rules: str, release: str = "next") -> None:
    ext = {
        "controllerId": "c2",
        "active": "false",
        "able": "true",
        "term": "1",
        "rules": rules,
        "release": release,
    }
    leader.request(19001, ext, conn=9, oneway=True)


def test_rules_are_activated_only_when_every_controller_was_heard_and_has_them() -> None:
    leader, _ = pair()
    newest = max(leader.core_config.supported_rules)
    body = json.dumps({"rules_version": newest}).encode()
    refused = leader.request(19005, {}, body)
    assert refused is not None and refused.code == 1 and "c2 is not heard" in (refused.remark or "")
    beat(leader, "0", "old")
    refused = leader.request(19005, {}, body)
    assert refused is not None and "c2 (old) has no rules version" in (refused.remark or "")
    beat(leader, f"1,{newest}")
    before = len(leader.log.records)
    answer = leader.request(19005, {}, body)
    assert answer is not None and len(leader.log.records) == before + 1
    assert leader.published[-1].kind == "ActivateRules"
    refused = leader.request(19005, {}, b'{"rules_version": 99}')
    assert refused is not None and "c1 has no rules version 99" in (refused.remark or "")


def test_an_import_says_where_it_is_recorded_and_why_it_is_refused() -> None:
    rig = Rig().lead().three()
    fields = {
        "cluster_name": "C",
        "broker_name": "java",
        "next_broker_id": 2,
        "master_broker_id": 1,
        "master_epoch": 4,
        "sync_state_set": [1],
        "sync_state_set_epoch": 6,
        "source": "test",
        "replicas": [{"broker_id": 1, "address": "h1:1"}],
    }
    done = rig.request(19006, {}, json.dumps(fields).encode())
    assert done is not None and done.code == 0 and rig.state.sets["java"].master_broker_id == 1
    assert done.ext["commandOffset"] == str(rig.folder.offset)
    refused = rig.request(19006, {}, json.dumps(fields | {"broker_name": "a"}).encode())
    assert refused is not None and (refused.code, refused.ext["refusal"]) == (1, "IMPORT_CONFLICT")
    assert "IMPORT_CONFLICT" in (refused.remark or "")


def test_settings_that_are_in_force_already_are_confirmed_after_a_read_barrier() -> None:
    """A leader that leads no more would confirm what the next one has changed."""
    rig = Rig().lead()
    rig.auto = False
    body = json.dumps({"settings": {"enableElectUncleanMaster": "false"}}).encode()
    assert rig.request(19004, {}, body) is None
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    (reply,) = rig.take(fx.Reply)
    assert reply.response.code == 0 and rig.held == []
