"""What the active controller does unasked."""

from processors import effects as fx
from tests.support.controller_rig import SET, Log, Rig


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
