"""Heartbeats of brokers and of other controllers."""

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.heartbeats import AHEAD_MAX
from processors.fold.state import EPOCH_REACH
from processors.liveness.ahead_of_log import REPORTS_MIN
from processors.liveness.pulses import TIMEOUT_MS_MAX, TIMEOUT_MS_MIN
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

BEAT = {"clusterName": CLUSTER, "brokerName": SET, "brokerAddr": "b1:10911", "brokerId": "1"}


@pytest.mark.parametrize("lead", [True, False])
def test_904_is_taken_by_every_controller_and_answered_when_it_was_not_one_way(lead: bool) -> None:
    rig = Rig()
    if lead:
        rig.lead()
    answer = rig.request(904, BEAT)
    assert (
        answer is not None
        and (answer.code, answer.ext, answer.body) == (0, {}, b"")
        and answer.remark
    )
    assert rig.request(904, BEAT, oneway=True) is None
    assert rig.core._context.liveness.pulse((CLUSTER, SET, 1)) is not None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"brokerId": ""}, 2005),
        ({"brokerId": "x"}, 2005),
        ({"epoch": str(2**31 - 1)}, 2005),
        ({"brokerName": ""}, 1),
        ({"brokerAddr": ""}, 1),
    ],
)
def test_a_904_that_cannot_be_read(change: dict[str, str], code: int) -> None:
    answer = Rig().lead().request(904, BEAT | change)
    assert answer is not None and answer.code == code and answer.remark


@pytest.mark.parametrize(
    "told",
    [
        {"epoch": "1.5"},
        {"epoch": str(1 << 31)},
        {"maxOffset": str(1 << 63)},
        {"confirmOffset": "null"},
        {"heartbeatTimeoutMills": "x"},
        {"electionPriority": "high"},
    ],
)
def test_what_a_904_tells_unreadably_counts_as_not_told_and_its_sender_lives(
    told: dict[str, str],
) -> None:
    rig = Rig().lead()
    answer = rig.request(904, BEAT | told)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert answer is not None and answer.code == 0 and pulse is not None
    assert (
        pulse.epoch,
        pulse.max_offset,
        pulse.confirm_offset,
        pulse.timeout_ms,
        pulse.election_priority,
    ) == (-1, -1, -1, 10_000, 2**31 - 1)


def test_an_epoch_that_ends_all_epochs_does_not_keep_the_others_from_a_master() -> None:
    rig = Rig().lead().three()
    rig.heartbeat(3, epoch=2**31 - 1)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2


def test_an_epoch_far_above_all_that_is_known_of_a_set_does_not_use_up_its_epochs() -> None:
    rig = Rig().lead().three()
    rig.heartbeat(3, epoch=2**31 - 2)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    broker_set = rig.state.sets[SET]
    assert (
        broker_set.master_broker_id,
        broker_set.master_epoch,
        broker_set.highest_epoch_seen,
    ) == (2, 2, 2)


@pytest.mark.parametrize(("above", "believed"), [(EPOCH_REACH, True), (EPOCH_REACH + 1, False)])
@pytest.mark.parametrize(
    "passed_on", [{}, {"regentForwardedFor": "c2"}], ids=["heard here", "passed on"]
)
def test_how_far_above_what_is_known_an_epoch_is_believed(
    above: int, believed: bool, passed_on: dict[str, str]
) -> None:
    rig = Rig().lead().three()
    epoch = rig.state.sets[SET].highest_epoch_seen + above
    # Under an id that is not registered: nobody is a stranger under it, and the set is the same.
    rig.request(
        904, BEAT | passed_on | {"brokerId": "9", "epoch": str(epoch), "maxOffset": "70"}, conn=50
    )
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 9))
    assert pulse is not None
    assert (pulse.epoch, pulse.max_offset) == ((epoch, 70) if believed else (-1, -1))


def test_a_set_without_an_election_here_may_have_had_many_elsewhere() -> None:
    rig = Rig().lead()
    rig.request(904, BEAT | {"epoch": "5000", "maxOffset": "70"})
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None and (pulse.epoch, pulse.max_offset) == (5000, 70)


def test_a_heartbeat_that_another_controller_heard_counts_where_none_came_itself() -> None:
    rig, relayed = Rig().lead(), BEAT | {"regentForwardedFor": "c2"}
    answers = [
        rig.request(904, relayed, conn=50),
        rig.request(904, BEAT, conn=1),
        rig.request(904, relayed, conn=50),
    ]
    assert [one.ext.get("regentHeard") for one in answers if one is not None] == [
        "relayed",
        None,
        "here",
    ]
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None and (pulse.conn_id, pulse.relayed) == (1, False)


def test_what_the_leader_only_knows_from_others_is_not_what_it_hears() -> None:
    rig = Rig().lead()
    rig.request(904, BEAT | {"regentForwardedFor": "c2"}, conn=50)
    rig.pass_time(1_000)
    assert rig.core._context.liveness.heard_count(rig.now_ms) == 0
    rig.request(904, BEAT, conn=1)
    rig.pass_time(1_000)
    assert rig.core._context.liveness.heard_count(rig.now_ms) == 1


def test_a_new_start_may_know_other_controllers_so_its_former_life_here_is_no_word_on_it() -> None:
    rig = Rig().lead().three()
    rig.register(1, "again")
    answer = rig.request(
        904, BEAT | {"regentForwardedFor": "c2", "regentIncarnation": "again"}, conn=50
    )
    assert answer is not None and answer.ext == {"regentHeard": "relayed"}


def test_a_standby_takes_nothing_that_another_one_heard() -> None:
    rig = Rig("c2", Log(), {"c1": "c1:9878"}, seed=2)
    answer = rig.request(904, BEAT | {"regentForwardedFor": "c3"})
    assert answer is not None and answer.code == 2007
    assert rig.core._context.liveness.pulse((CLUSTER, SET, 1)) is None


def test_a_heartbeat_with_a_timeout_of_nothing_makes_no_noise() -> None:
    rig = Rig().lead().three()
    for _ in range(5):
        rig.request(
            904,
            BEAT | {"brokerId": "3", "brokerAddr": "b3:10911", "heartbeatTimeoutMills": "-1"},
            conn=3,
            oneway=True,
        )
        rig.tick(100)
    assert rig.take(fx.NotifyRole) == [] and rig.take(fx.Note) == []


def test_a_peer_that_cannot_be_read_is_no_answer_either() -> None:
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead()
    assert rig.request(19001, {"controllerId": "c2", "term": "x"}, oneway=True) is None
    assert rig.request(19001, {}, oneway=True) is None


def follower() -> Rig:
    """c2 follows c1 and keeps what c1 has not published yet."""
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    leader.three()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    standby.tick()
    return standby


def word(**changes: object) -> dict[str, str]:
    ext = {
        "controllerId": "c1",
        "controllerAddress": "c1:9878",
        "active": "true",
        "able": "true",
        "term": "1",
        "appliedOffset": "9",
        "publishedOffset": "9",
    }
    return ext | {name: str(value) for name, value in changes.items()}


def state_of(rig: Rig) -> tuple[int, int, int]:
    """How far c2 takes the topic to go and c1 to be, and what it did not believe."""
    known = rig.core._context.peer_reports.last_report("c1")
    return (
        rig.core._outcomes.published_offset,
        -1 if known is None else known.applied_offset,
        rig.core._context.metrics.strange_peer_words,
    )


def test_the_leaders_word_is_believed_as_far_as_this_controller_is_itself() -> None:
    rig = follower()
    rig.request(19001, word(), oneway=True)
    assert state_of(rig) == (9, 9, 0)
    rig.request(19001, word(publishedOffset=rig.folder.offset + 5), oneway=True)
    assert state_of(rig) == (rig.folder.offset, 9, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"controllerId": "stranger"},
        {"controllerId": "c2"},
        {"controllerAddress": "elsewhere:1"},
        {"publishedOffset": AHEAD_MAX + 1_000},
        {"appliedOffset": (1 << 63) - 1},
    ],
)
def test_a_word_that_cannot_be_the_leaders_says_nothing_of_offsets_and_is_counted(
    changes: dict[str, object],
) -> None:
    rig = follower()
    rig.request(19001, word(**changes), oneway=True)
    assert state_of(rig) == (-1, -1, 1)


def test_another_peers_word_is_not_the_leaders() -> None:
    log = Log()
    Rig("c1", log, {"c2": "c2:9878"}).lead()
    rig = Rig("c2", log, {"c1": "c1:9878", "c3": "c3:9878"}, seed=2)
    rig.catch_up()
    rig.tick()
    rig.request(19001, word(controllerId="c3", controllerAddress="c3:9878"), oneway=True)
    assert rig.core._outcomes.published_offset == -1


def test_a_false_word_makes_no_hole_in_what_the_next_leader_publishes() -> None:
    rig = follower()
    rig.request(19001, word(publishedOffset=rig.folder.offset), oneway=True)
    rig.pass_time(2_000)
    assert rig.core.is_active, "c1 is silent, and the topic of this test is empty"
    (again,) = rig.take(fx.FoldAgain)
    assert again.first == 0 and rig.published == []


@pytest.mark.parametrize(
    ("ext", "code"), [(word(), 0), (word(controllerId="stranger"), 1), ({}, 1), (word(term="x"), 1)]
)
def test_a_19001_that_is_not_one_way_is_answered(ext: dict[str, str], code: int) -> None:
    answer = follower().request(19001, ext)
    assert answer is not None and answer.code == code


def test_only_the_leader_tells_of_a_silence_that_ended() -> None:
    rig = Rig().lead().three()
    rig.heartbeat(2)
    rig.take(fx.Report)
    rig.pass_time(2_000)
    rig.heartbeat(2)
    [report] = rig.take(fx.Report)
    assert (report.fact.silent_broker_id, report.fact.gap_ms, report.fact.was_gone) == (
        2,
        2_000,
        False,
    )
    rig.heartbeat(9)
    rig.pass_time(2_000)
    rig.heartbeat(9)
    assert rig.take(fx.Report) == []
    standby = Rig("c2", rig.log)
    standby.catch_up()
    standby.heartbeat(2)
    standby.now_ms += 2_000
    standby.heartbeat(2)
    assert not standby.core.is_active
    assert standby.take(fx.Report) == []


def forged(**changes: str) -> dict[str, str]:
    """In the name of the master of `Rig.three`."""
    return BEAT | {"epoch": "1", "maxOffset": "999999", "regentIncarnation": "stranger"} | changes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"regentIncarnation": ""},
        {"heartbeatTimeoutMills": "1"},
        {"heartbeatTimeoutMills": "-1"},
        {"brokerAddr": "evil:1"},
        {"regentForwardedFor": "c9"},
    ],
)
def test_a_heartbeat_in_the_masters_name_with_another_incarnation_deposes_nobody(
    changes: dict[str, str],
) -> None:
    rig = Rig().lead().three()
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None
    before, epoch = (
        (pulse.incarnation, pulse.timeout_ms, pulse.conn_id, pulse.address, pulse.max_offset),
        rig.state.sets[SET].master_epoch,
    )
    ext = {
        name: value
        for name, value in forged(**changes).items()
        if value or name != "regentIncarnation"
    }
    rig.request(904, ext, conn=99, oneway=True)
    rig.close_connection(99)
    assert (
        pulse.incarnation,
        pulse.timeout_ms,
        pulse.conn_id,
        pulse.address,
        pulse.max_offset,
    ) == before
    assert rig.core._context.is_alive(rig.state.sets[SET], rig.state.sets[SET].master())
    assert (rig.state.sets[SET].master_broker_id, rig.state.sets[SET].master_epoch) == (1, epoch)
    assert rig.core._context.metrics.strange_heartbeats == 1


def test_a_new_start_counts_once_it_has_registered() -> None:
    rig = Rig().lead().three()
    again = forged(brokerId="3", brokerAddr="b3:10911", regentIncarnation="second life")
    rig.request(904, again, conn=33, oneway=True)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 3))
    assert pulse is not None and pulse.incarnation == "life-3"
    rig.register(3, "second life")
    rig.request(904, again, conn=33, oneway=True)
    assert (pulse.incarnation, pulse.conn_id) == ("second life", 33)


def java_rig() -> Rig:
    """Replica 1 of a set is Java's, registered as h1:10911 and heard through an address
    translation.
    """
    rig = Rig().lead()
    names = {"clusterName": CLUSTER, "brokerName": SET}
    rig.request(1013, names | {"appliedBrokerId": "1", "registerCheckCode": "h1:10911;1"})
    rig.request(1003, names | {"brokerId": "1", "brokerAddress": "h1:10911"})
    return rig


def hear(rig: Rig, host: str, conn: int, **changes: str) -> tuple[int | None, int]:
    command = RemotingCommand.request(904, BEAT | {"brokerAddr": "h1:10911"} | changes, oneway=True)
    rig.perform(rig.core.on_request(conn, f"{host}:4711", command, rig.now_ms, rig.wall_ms))
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None
    return pulse.conn_id, pulse.timeout_ms


def test_a_java_broker_is_not_unseated_from_another_host_while_it_is_heard() -> None:
    rig = java_rig()
    assert hear(rig, "10.0.0.7", 7) == (7, 10_000)
    assert hear(rig, "6.6.6.6", 66, heartbeatTimeoutMills="-1") == (7, 10_000)
    assert hear(rig, "h1", 8) == (8, 10_000)  # from the host it registered with
    rig.close_connection(8)
    # it is not heard any more: it may have moved behind another address
    assert hear(rig, "10.0.0.8", 9) == (9, 10_000)


@pytest.mark.parametrize(
    ("asked", "counts"),
    [("1", TIMEOUT_MS_MIN), (str(2**62), TIMEOUT_MS_MAX), ("0", 0), ("-5", -5), ("3000", 3_000)],
)
def test_a_heartbeat_asks_for_a_timeout_within_reason(asked: str, counts: int) -> None:
    assert hear(java_rig(), "h1", 1, heartbeatTimeoutMills=asked)[1] == counts


def with_epoch_seen(broker: int, seen: int, **more: str) -> dict[str, str]:
    return (
        BEAT
        | {
            "brokerId": str(broker),
            "brokerAddr": f"b{broker}:10911",
            "regentIncarnation": f"life-{broker}",
            "regentEpochSeen": str(seen),
        }
        | more
    )


@pytest.mark.parametrize(
    "passed_on", [{}, {"regentForwardedFor": "c2"}], ids=["heard here", "passed on"]
)
def test_a_controller_whose_log_ends_before_what_a_member_knows_stops(
    passed_on: dict[str, str],
) -> None:
    rig = Rig().lead().three()
    epoch = rig.state.sets[SET].master_epoch
    for _ in range(REPORTS_MIN - 1):
        rig.request(904, with_epoch_seen(2, epoch + 1, **passed_on), conn=2)
    assert not rig.take(fx.Halt), "one report may be a mistake"
    rig.request(904, with_epoch_seen(2, epoch + 1, **passed_on), conn=2)
    [halt] = rig.take(fx.Halt)
    assert f"was told {epoch + 1}" in halt.reason and "regent controller rebuild" in halt.reason


def test_a_controller_whose_log_lost_a_change_of_the_set_stops_by_its_masters_word() -> None:
    rig = Rig().lead().three()
    broker_set = rig.state.sets[SET]
    told = {
        "epoch": str(broker_set.master_epoch),
        "regentSetEpoch": str(broker_set.sync_state_set_epoch + 1),
    }
    for broker in (2, 1):
        for _ in range(REPORTS_MIN):
            assert not rig.take(fx.Halt), "only the master's word counts"
            rig.request(904, with_epoch_seen(broker, broker_set.master_epoch, **told), conn=broker)
    assert len(rig.take(fx.Halt)) == 1


def test_a_controller_that_was_only_late_goes_on() -> None:
    """The broker heard from the leader what this standby had not applied yet."""
    log = Log()
    leader = Rig("c1", log).lead().three()
    standby = Rig("c2", log, seed=2)
    standby.catch_up()
    leader.auto = standby.auto = True
    leader.close_connection(1)
    leader.probe_result("b1:10911", "refused")
    epoch = leader.state.sets[SET].master_epoch
    assert epoch > standby.state.sets[SET].master_epoch
    for _ in range(2 * REPORTS_MIN):
        standby.request(904, with_epoch_seen(2, epoch), conn=2)
    standby.catch_up()
    for _ in range(2 * REPORTS_MIN):
        standby.request(904, with_epoch_seen(2, epoch), conn=2)
    assert not standby.take(fx.Halt)


def test_while_the_log_does_not_say_where_it_ends_no_report_counts() -> None:
    rig = Rig().lead().three()
    rig.auto = False
    for _ in range(2 * REPORTS_MIN):
        rig.request(904, with_epoch_seen(2, rig.state.sets[SET].master_epoch + 1), conn=2)
    assert not rig.take(fx.Halt)


@pytest.mark.parametrize(
    "stranger",
    [{"regentIncarnation": "other"}, {"brokerId": "9"}],
    ids=["another start", "another id"],
)
def test_a_stranger_stops_nobody(stranger: dict[str, str]) -> None:
    rig = Rig().lead().three()
    for _ in range(2 * REPORTS_MIN):
        rig.request(
            904, with_epoch_seen(2, rig.state.sets[SET].master_epoch + 1) | stranger, conn=50
        )
    assert not rig.take(fx.Halt)


def test_an_epoch_that_cannot_be_is_told_once_and_not_followed() -> None:
    rig = Rig().lead().three()
    for _ in range(2 * REPORTS_MIN):
        rig.request(
            904, with_epoch_seen(2, rig.state.sets[SET].master_epoch + EPOCH_REACH + 1), conn=2
        )
    assert not rig.take(fx.Halt)
    assert len([note for note in rig.take(fx.Note) if "is not followed" in note.text]) == 1


def at_home(peer_id: str, address: str) -> bool:
    """c1 speaks from 10.0.0.1, c2 from 10.0.0.2; any of them for an empty id."""
    return address.startswith({"c1": "10.0.0.1:", "c2": "10.0.0.2:"}.get(peer_id, "10.0.0."))


def said(rig: Rig, peer: str, code: int, ext: dict[str, str]) -> RemotingCommand:
    rig.perform(
        rig.core.on_request(66, peer, RemotingCommand.request(code, ext), rig.now_ms, rig.wall_ms)
    )
    (reply,) = rig.take(fx.Reply)
    return reply.response


@pytest.mark.parametrize(
    ("peer", "believed"),
    [("10.0.0.1:4711", True), ("10.0.0.2:4711", False), ("6.6.6.6:4711", False)],
)
def test_a_controllers_word_comes_from_its_own_host(peer: str, believed: bool) -> None:
    log = Log()
    Rig("c1", log, {"c2": "c2:9878"}).lead()
    rig = Rig("c2", log, {"c1": "c1:9878"}, seed=2, is_of_peer=at_home)
    rig.catch_up()
    rig.pass_time(900)
    answer = said(rig, peer, 19001, word() | {"httpAddress": "evil:1"})
    known = rig.core._context.peer_reports.last_report("c1")
    assert (answer.code == 0, known is not None) == (believed, believed)
    assert believed or "not at the host of controller c1" in str(answer.remark)
    assert rig.core._context.metrics.strange_peer_words == (not believed)


FORWARDED = {
    "a heartbeat": (904, BEAT | {"regentForwardedFor": "c2"}),
    "a registration": (
        1003,
        {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "brokerId": "2",
            "brokerAddress": "b2:10911",
            "regentForwardedFor": "b2:1",
        },
    ),
    "an election": (
        1002,
        {"clusterName": CLUSTER, "brokerName": SET, "brokerId": "2", "regentForwardedFor": "b2:1"},
    ),
    "an invitation to lead": (19008, {"claimInTerm": "1"}),
}


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED)
def test_only_controllers_speak_for_others(case: tuple[int, dict[str, str]]) -> None:
    code, ext = case
    rig = Rig(is_of_peer=at_home).lead().three()
    records = len(rig.log.records)
    answer = said(rig, "6.6.6.6:4711", code, ext)
    assert (
        answer.code == 1
        and ("no host of a controller") in str(answer.remark)
        and len(rig.log.records) == records
    )
    assert "no host of a controller" not in str(said(rig, "10.0.0.2:4711", code, ext).remark)


# --- Java members that lost their power (S15) -------------------------------------------------


def java_beat(
    rig: Rig, offset: int, epoch: int = 1, confirm: int | None = None, broker: int = 2, **other: str
) -> None:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerAddr": f"b{broker}:10911",
        "brokerId": str(broker),
        "epoch": str(epoch),
        "maxOffset": str(offset),
        "confirmOffset": str(offset if confirm is None else confirm),
        "heartbeatTimeoutMills": "3000",
    } | other
    rig.request(904, ext, conn=broker, oneway=True)


def java_starts(rig: Rig, broker: int = 2) -> None:
    """1003 as RocketMQ sends it: no incarnation, no position, not whether it is clean."""
    ext = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerId": str(broker),
        "brokerAddress": f"b{broker}:10911",
    }
    answer = rig.request(1003, ext, conn=broker)
    assert answer is not None and answer.code == 0, answer.remark


def with_java_member(offset: int = 5_000, **options: object) -> Rig:
    """1 of ours leads, 2 is RocketMQ's; both are members and hold what is confirmed up to
    `offset`.
    """
    rig = Rig(**options).lead()
    rig.join(1)
    assert rig.elect(1).code == 0
    names = {"clusterName": CLUSTER, "brokerName": SET}
    assert (
        rig.request(
            1013, names | {"appliedBrokerId": "2", "registerCheckCode": "b2:10911;1"}, conn=2
        ).code
        == 0
    )
    java_starts(rig)
    rig.heartbeat(1, offset=offset, epoch=1), java_beat(rig, offset)
    assert rig.alter("1,2", rig.state.sets[SET].sync_state_set_epoch).code == 0
    rig.sent.clear()
    return rig


def dies(rig: Rig, broker: int) -> None:
    rig.close_connection(broker)
    rig.probe_result(f"b{broker}:10911", "refused")


def test_a_java_member_that_lost_its_power_leaves_the_set_with_its_first_heartbeat() -> None:
    rig = with_java_member()
    java_starts(rig)
    java_beat(rig, 4_000)
    broker_set = rig.state.sets[SET]
    assert (broker_set.sync_state_set, broker_set.unclean_members, broker_set.replica(2).clean) == (
        (1,),
        (2,),
        False,
    )
    (told,) = [one.fact for one in rig.take(fx.Report)]
    assert type(told).__name__ == "LossNoticed"
    assert (
        told.lost_broker_id,
        told.claimed_epoch,
        told.claimed_offset,
        told.acknowledged_offset,
    ) == (2, 1, 4_000, 5_000)
    assert told.why == "log_went_back"
    dies(rig, 1)
    rig.pass_time(2_000)
    assert rig.state.sets[SET].master_broker_id != 2


def test_before_it_has_shown_its_log_a_java_member_that_started_anew_is_not_elected() -> None:
    """What its former start told stands for nothing; it is elected as soon as it shows that it
    lacks nothing.
    """
    rig = with_java_member()
    java_starts(rig)
    dies(rig, 1)
    rig.pass_time(1_000)
    assert rig.state.sets[SET].master_broker_id != 2
    answer = rig.elect(2)
    # asking is no proof either
    assert answer.code != 0 and rig.state.sets[SET].master_broker_id != 2
    java_beat(rig, 5_000)
    rig.pass_time(500)
    assert (rig.state.sets[SET].master_broker_id, rig.state.sets[SET].at_risk) == (2, False)


def test_a_java_member_that_was_killed_and_lost_nothing_stays() -> None:
    rig = with_java_member()
    java_starts(rig)
    java_beat(rig, 5_000)
    java_beat(rig, 5_600)
    assert rig.state.sets[SET].sync_state_set == (1, 2) and not rig.take(fx.Report)


def test_a_java_member_is_bound_to_what_it_told_after_the_last_decision() -> None:
    """The log knows of 5,000; its heartbeats told of 7,000 since, and that much was confirmed."""
    rig = with_java_member()
    java_beat(rig, 7_500, confirm=7_000)
    java_starts(rig)
    java_beat(rig, 7_000 - 1)
    assert not rig.state.sets[SET].replica(2).clean
    rig = with_java_member()
    java_beat(rig, 7_500, confirm=7_000)
    java_starts(rig)
    java_beat(rig, 7_000)
    assert rig.state.sets[SET].replica(2).clean


def test_an_empty_java_member_whose_identity_was_put_back_is_unclean() -> None:
    rig = with_java_member()
    java_starts(rig)
    java_beat(rig, 0, epoch=-1)
    assert rig.state.sets[SET].sync_state_set == (1,) and not rig.state.sets[SET].replica(2).clean


def test_a_loss_is_registered_once_while_it_is_on_its_way_and_again_if_that_was_lost() -> None:
    rig = with_java_member()
    java_starts(rig)
    rig.holds_appends = True
    java_beat(rig, 4_000)
    java_beat(rig, 4_100)
    assert len(rig.held) == 1
    rig.held.clear()
    rig.pass_time(1_500)
    java_beat(rig, 4_200)
    assert len(rig.held) == 1


def test_only_who_leads_registers_a_loss() -> None:
    log = Log()
    leader = with_java_member(log=log)
    standby = Rig("c2", log, seed=2)
    standby.catch_up()
    java_starts(leader)
    standby.catch_up()
    java_beat(standby, 4_000)
    assert not standby.held and not standby.take(fx.Report)
