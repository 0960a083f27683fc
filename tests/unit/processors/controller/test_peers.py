"""One controller among others (design D5, D6)."""

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from tests.support.controller_rig import Log, Rig


def pair() -> tuple[Rig, Rig]:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    standby.tick()
    standby.sent.clear()
    return leader, standby


def test_peers_hear_how_a_controller_is_and_a_heard_leader_is_not_succeeded() -> None:
    leader, standby = pair()
    for _ in range(40):
        leader.tick(100)
        for tell in leader.take(fx.TellPeer):
            assert tell.address == "c2:9878" and tell.command.is_oneway
            standby.request(19001, tell.command.ext, conn=9, oneway=True)
        standby.tick(100)
    assert leader.core.is_active and not standby.core.is_active


def test_heartbeats_have_a_period_of_their_own() -> None:
    leader, _ = pair()
    leader.sent.clear()
    told = 0
    for _ in range(40):
        leader.tick(25)
        told += len(leader.take(fx.TellPeer))
    assert told == 5


def test_a_silent_leader_is_succeeded_and_the_former_one_stands_by() -> None:
    leader, standby = pair()
    standby.pass_time(1_300)
    assert standby.core.is_active and standby.state.term == 2
    leader.catch_up()
    assert not leader.core.is_active
    assert any("standing by" in note.text for note in leader.take(fx.Note))


def test_the_leaders_2007_is_not_passed_on_but_tried_again() -> None:
    _, standby = pair()
    standby.request(1004, {"brokerName": "a"})
    (forward,) = standby.take(fx.ForwardToLeader)
    refused = RemotingCommand(2007, 1, 1)
    standby.perform(standby.core.on_reply_from_leader(forward.token, refused, standby.now_ms))
    assert standby.take(fx.Reply) == []
    standby.tick(100)
    (again,) = standby.take(fx.ForwardToLeader)
    assert again.token != forward.token


def test_a_leader_that_never_answers_ends_in_unknown() -> None:
    _, standby = pair()
    standby.auto = False
    standby.request(
        1013,
        {"clusterName": "C", "brokerName": "b", "appliedBrokerId": "1", "registerCheckCode": "h;1"},
    )
    for _ in range(30):
        for forward in standby.take(fx.ForwardToLeader):
            standby.perform(standby.core.on_reply_from_leader(forward.token, None, standby.now_ms))
        standby.tick(100)
    (reply,) = standby.take(fx.Reply)
    assert reply.response.code == 1 and "unknown" in (reply.response.remark or "")


def test_a_strangers_heartbeat_changes_nothing() -> None:
    _, standby = pair()
    ext = {"controllerId": "stranger", "active": "true", "able": "true", "term": "99"}
    assert standby.request(19001, ext, oneway=True) is None
    assert standby.state.leader_id == "c1"


def test_1005_names_an_address_that_the_asker_can_reach() -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}, networks={"10.0.0.0/8": "10.0.0.1:9878"}).lead()
    standby = Rig(
        "c2",
        log,
        {"c1": "c1:9878"},
        seed=2,
        networks={"10.0.0.0/8": "10.0.0.2:9878", "172.16.0.0/12": "172.16.0.2:9878"},
    )
    standby.catch_up()
    leader.tick(200)
    (told,) = leader.take(fx.TellPeer)
    standby.request(19001, told.command.ext, conn=9, oneway=True)

    def named(rig: Rig, peer: str) -> str:
        command = RemotingCommand.request(1005)
        (reply,) = rig.core.on_request(1, peer, command, rig.now_ms, rig.wall_ms)
        assert isinstance(reply, fx.Reply) and reply.response.ext["controllerLeaderId"] == "c1"
        return reply.response.ext["controllerLeaderAddress"]

    assert named(leader, "10.5.5.5:1") == named(standby, "10.5.5.5:1") == "10.0.0.1:9878"
    assert named(standby, "172.16.9.9:1") == "172.16.0.2:9878", (
        "the standby names itself: it forwards"
    )
    assert named(leader, "192.168.0.1:1") == named(standby, "192.168.0.1:1") == "c1:9878"
