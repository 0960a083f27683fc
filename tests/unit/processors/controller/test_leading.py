"""What the active controller does unasked."""

import json

import pytest

from processors.controller import effects as fx
from processors.controller import leading
from tests.support.controller_rig import CLUSTER, SET, Log, Rig


def test_a_new_leader_probes_masters_it_never_heard_and_pushes_the_roles() -> None:
    log = Log()
    first = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    second.pass_time(1_500)
    assert second.core.is_active
    assert {probe.address for probe in second.take(fx.Probe)} >= {"b1:10911"}
    assert {notice.address for notice in second.take(fx.NotifyRole)} == {
        "b1:10911",
        "b2:10911",
        "b3:10911",
    }
    assert any("leading in term 2" in note.text for note in second.take(fx.Note))


def test_a_standby_that_hears_a_replica_return_pushes_and_elects_nothing() -> None:
    log = Log()
    Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.heartbeat(2)
    assert standby.take(fx.NotifyRole) == [] and standby.take(fx.Append) == []


def test_the_moment_of_the_pushes_is_stamped() -> None:
    rig = Rig().lead().three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2
    assert "notified" in rig.published[-1].phases


def an_import() -> Rig:
    """Set a came from a Java controller: master 1, members 1 and 2. Nobody has arrived yet."""
    rig = Rig().lead()
    replicas = [
        {"broker_id": one, "address": f"b{one}:10911", "register_check_code": ""} for one in (1, 2)
    ]
    body = {
        "cluster_name": CLUSTER,
        "broker_name": SET,
        "next_broker_id": 3,
        "master_broker_id": 1,
        "master_epoch": 5,
        "sync_state_set": [1, 2],
        "sync_state_set_epoch": 9,
        "replicas": replicas,
        "source": "j:9878",
        "evidence_epoch": 5,
    }
    answer = rig.request(19006, body=json.dumps(body).encode(), conn=9)
    assert answer is not None and answer.code == 0
    return rig


def java_beat(rig: Rig, broker: int) -> None:
    fields = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerAddr": f"b{broker}:10911",
        "brokerId": str(broker),
        "epoch": "5",
        "maxOffset": "100",
        "confirmOffset": "0",
        "heartbeatTimeoutMills": "10000",
    }
    rig.request(904, fields, conn=broker, oneway=True)


def test_an_imported_master_that_has_not_arrived_is_probed_and_not_taken_for_dead() -> None:
    rig = an_import()
    for _ in range(60):
        java_beat(rig, 2)
        rig.pass_time(1_000)
        for probe in rig.take(fx.Probe):
            rig.probe_result(probe.address, "open")
    assert rig.state.sets[SET].master_broker_id == 1 and rig.state.sets[SET].master_epoch == 5


def test_a_slave_that_starts_meanwhile_is_told_the_master_that_is_awaited() -> None:
    rig = an_import()
    rig.register(2)
    answer = rig.elect(2)
    assert (answer.code, answer.ext["masterBrokerId"], answer.ext["masterAddress"]) == (
        2011,
        "1",
        "b1:10911",
    )


def test_an_imported_master_that_is_dead_is_replaced_once_a_member_has_arrived() -> None:
    rig = an_import()
    java_beat(rig, 2)
    rig.pass_time(3_000)
    assert [probe.address for probe in rig.take(fx.Probe)] == ["b1:10911"]
    rig.probe_result("b1:10911", "refused")
    assert (rig.state.sets[SET].master_broker_id, rig.state.sets[SET].master_epoch) == (2, 6)


def test_an_imported_master_that_never_arrives_is_replaced_in_the_end() -> None:
    rig = an_import()
    for _ in range(190):
        java_beat(rig, 2)
        rig.pass_time(1_000)
        for probe in rig.take(fx.Probe):
            rig.probe_result(probe.address, "open")
    assert rig.state.sets[SET].master_broker_id == 2


def test_a_returning_broker_is_told_its_role_once_the_log_says_that_it_is_current() -> None:
    """A leader that lags, or leads no more, would give a restarted Java master its old mastership
    (S6).
    """
    rig = Rig().lead().three()
    rig.elect(1)
    rig.pass_time(4_000)
    rig.auto = False
    rig.take(fx.NotifyRole), rig.take(fx.AskEndOffset)
    rig.heartbeat(2)
    assert rig.take(fx.NotifyRole) == []
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    assert [one.address for one in rig.take(fx.NotifyRole)] == ["b2:10911"]


def test_a_setting_in_the_file_that_the_log_overrules_is_said_once() -> None:
    log = Log()
    Rig("c1", log, {"c2": "c2:9878"}).lead()
    second = Rig(
        "c2",
        log,
        {"c1": "c1:9878"},
        seed=2,
        settings={"enableElectUncleanMaster": "true", "electMasterMaxRetryCount": "3"},
    )
    second.catch_up()
    second.pass_time(3_000)
    assert second.core.is_active
    said = [note.text for note in second.take(fx.Note) if "settings" in note.text]
    assert said == [
        (
            "the log's settings count: enableElectUncleanMaster is false, this controller's file "
            "says true"
        )
    ]


MANY = [f"s{number}" for number in range(5)]


def arrive(rig: Rig, name: str, broker: int) -> None:
    names = {"clusterName": CLUSTER, "brokerName": name}
    address = f"{name}-{broker}:1"
    rig.request(1013, {**names, "appliedBrokerId": str(broker), "registerCheckCode": address})
    rig.request(
        1003,
        {
            **names,
            "brokerId": str(broker),
            "brokerAddress": address,
            "regentIncarnation": "life",
            "regentClean": "true",
            "regentLastEpoch": "0",
            "regentEndOffset": "0",
        },
    )
    beat(rig, name, broker)


def beat(rig: Rig, name: str, broker: int) -> None:
    fields = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerAddr": f"{name}-{broker}:1",
        "brokerId": str(broker),
        "epoch": "1",
        "maxOffset": "0",
        "confirmOffset": "0",
        "heartbeatTimeoutMills": "3000",
        "regentIncarnation": "life",
    }
    rig.request(904, fields, conn=MANY.index(name) * 10 + broker, oneway=True)


def many(monkeypatch: pytest.MonkeyPatch, log: Log | None = None) -> Rig:
    """Five sets of two, all in sync, of which two are looked at in one tick."""
    monkeypatch.setattr(leading, "LOOKS_AT_ONCE", 2)
    rig = Rig("c1", log, {"c2": "c2:9878"} if log else {}).lead()
    for name in MANY:
        for broker in (1, 2):
            arrive(rig, name, broker)
        rig.request(1002, {"clusterName": CLUSTER, "brokerName": name, "brokerId": "1"})
        one = rig.state.sets[name]
        body = f'{{"syncStateSet":[1,2],"syncStateSetEpoch":{one.sync_state_set_epoch}}}'.encode()
        rig.request(
            1001,
            {"brokerName": name, "masterBrokerId": "1", "masterEpoch": str(one.master_epoch)},
            body,
        )
        assert rig.state.sets[name].sync_state_set == (1, 2)
    rig.sent.clear()
    return rig


def masters(rig: Rig) -> list[int | None]:
    return [rig.state.sets[name].master_broker_id for name in MANY]


def test_a_wave_of_silent_masters_is_replaced_some_in_each_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = many(monkeypatch)
    waves = set()
    for _ in range(60):
        for name in MANY:
            beat(rig, name, 2)
        rig.tick(60)
        waves.add(masters(rig).count(2))
    assert masters(rig) == [2] * 5
    assert len(waves) > 2, "not all at once"


def test_the_round_finds_what_nothing_pointed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = many(monkeypatch)
    rig.pass_time(500, step=25)
    for pulse in rig.core._context.liveness.pulses():
        if pulse.key[2] == 1:
            pulse.gone = "probe_refused"  # As if the hint had been lost.
    rig.pass_time(1_000, step=25)
    assert masters(rig) == [2] * 5


def test_a_new_leader_tells_every_set_some_in_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    first = many(monkeypatch, log)
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    told: list[set[str]] = []
    for _ in range(100):
        second.tick(25)
        if notices := {notice.address for notice in second.take(fx.NotifyRole)}:
            told.append(notices)
    assert set().union(*told) == {f"{name}-{broker}:1" for name in MANY for broker in (1, 2)}
    assert len(told) == 3


def test_roles_are_told_also_when_the_log_is_silent_for_a_while_after_the_takeover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    first = many(monkeypatch, log)
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    second.tick()
    second.auto = False
    second.perform(second.core.on_peer_closed("c1:9878", True, second.now_ms))
    (claim,) = second.held
    second.append(claim)
    assert second.core.is_active
    second.pass_time(4_000)
    assert second.take(fx.NotifyRole) == []
    second.auto = True
    for question in second.take(fx.AskEndOffset)[-1:]:
        second.perform(second.core.on_end_offset(question.token, len(log.records)))
    second.pass_time(6_000)
    assert {notice.address for notice in second.take(fx.NotifyRole)} >= {
        f"{name}-{broker}:1" for name in MANY for broker in (1, 2)
    }


def test_a_refusal_replaces_the_masters_of_that_port_that_were_never_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    first = many(monkeypatch, log)
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    second.pass_time(1_500)
    assert second.core.is_active
    beat(second, "s3", 2)
    second.probe_result("s3-1:1", "refused")
    assert second.state.sets["s3"].master_broker_id == 2


def test_of_many_that_fall_silent_at_once_some_are_named_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leading, "NAMED_MAX", 3)
    rig = many(monkeypatch)
    rig.pass_time(4_000)
    texts = [note.text for note in rig.take(fx.Note)]
    assert texts == [
        *(
            (f"{name}: broker {broker} fell silent")
            for name, broker in (("s0", 1), ("s0", 2), ("s1", 1))
        ),
        "7 more brokers fell silent",
    ]
