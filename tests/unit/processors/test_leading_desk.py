"""What the active controller does unasked."""

import json

from processors import effects as fx
from tests.support.controller_rig import CLUSTER, SET, Log, Rig


def test_a_new_leader_probes_masters_it_never_heard_and_pushes_the_roles() -> None:
    log = Log()
    first = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    second.pass_time(1_500)
    assert second.core.is_active
    assert {probe.address for probe in second.take(fx.Probe)} >= {"b1:10911"}
    assert {notice.address for notice in second.take(fx.NotifyRole)} == {"b1:10911", "b2:10911", "b3:10911"}
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
    replicas = [{"broker_id": one, "address": f"b{one}:10911", "register_check_code": ""} for one in (1, 2)]
    body = {"cluster_name": CLUSTER, "broker_name": SET, "next_broker_id": 3, "master_broker_id": 1, "master_epoch": 5,
            "sync_state_set": [1, 2], "sync_state_set_epoch": 9, "replicas": replicas, "source": "j:9878", "evidence_epoch": 5}
    answer = rig.request(19006, body=json.dumps(body).encode(), conn=9)
    assert answer is not None and answer.code == 0
    return rig


def java_beat(rig: Rig, broker: int) -> None:
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerAddr": f"b{broker}:10911", "brokerId": str(broker), "epoch": "5",
              "maxOffset": "100", "confirmOffset": "0", "heartbeatTimeoutMills": "10000"}
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
    assert (answer.code, answer.ext["masterBrokerId"], answer.ext["masterAddress"]) == (2011, "1", "b1:10911")


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


def test_a_returning_broker_is_told_its_role_only_once_the_log_has_said_that_it_is_current() -> None:
    """A leader that lags, or leads no more, would give a restarted Java master its old mastership (S6)."""
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
    second = Rig("c2", log, {"c1": "c1:9878"}, seed=2, settings={"enableElectUncleanMaster": "true", "electMasterMaxRetryCount": "3"})
    second.catch_up()
    second.pass_time(3_000)
    assert second.core.is_active
    said = [note.text for note in second.take(fx.Note) if "settings" in note.text]
    assert said == ["the log's settings count: enableElectUncleanMaster is false, this controller's file says true"]
