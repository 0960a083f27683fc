"""Leadership handed over on an operator's wish."""

from processors.controller import effects as fx
from tests.support.controller_rig import Log, Rig


def trio() -> tuple[Rig, Rig, Rig]:
    log = Log()
    addresses = {name: f"{name}:9878" for name in ("c1", "c2", "c3")}
    leader = Rig("c1", log, addresses).lead()
    others = [
        Rig(name, log, addresses, now_ms=leader.now_ms, seed=seed)
        for seed, name in ((2, "c2"), (3, "c3"))
    ]
    for one in others:
        one.catch_up()
        one.tick()
    return leader, others[0], others[1]


def beat(leader: Rig, peer: str, applied: int, able: str = "true") -> None:
    ext = {
        "controllerId": peer,
        "active": "false",
        "able": able,
        "term": "1",
        "appliedOffset": str(applied),
    }
    leader.request(19001, ext, conn=9, oneway=True)


def test_the_one_that_is_furthest_is_told_to_claim_and_the_operator_hears_when_it_leads() -> None:
    leader, c2, c3 = trio()
    beat(leader, "c2", 1)
    beat(leader, "c3", 2)
    assert leader.request(19008) is None
    (word,) = leader.take(fx.TellPeer)
    assert word.address == "c3:9878" and word.command.is_oneway
    c3.request(19008, word.command.ext, oneway=True)
    assert c3.core.is_active and c3.published[-1].cause == "leadership_transferred"
    leader.catch_up()
    (reply,) = leader.take(fx.Reply)
    assert reply.response.code == 0 and reply.response.ext["controllerLeaderId"] == "c3"
    assert not leader.core.is_active and not c2.core.is_active


def test_a_named_controller_must_be_known_heard_and_able() -> None:
    leader, _, _ = trio()
    for name, said in (("c9", "no controller c9"), ("c2", "not heard")):
        answer = leader.request(19008, {"controllerId": name})
        assert answer is not None and answer.code == 1 and said in (answer.remark or "")
    beat(leader, "c2", 1, able="false")
    answer = leader.request(19008, {"controllerId": "c2"})
    assert answer is not None and "does not reach the log" in (answer.remark or "")
    own = leader.request(19008, {"controllerId": "c1"})
    assert own is not None and own.code == 0 and own.ext["controllerLeaderId"] == "c1"


def test_a_standby_forwards_the_wish() -> None:
    _, c2, _ = trio()
    c2.request(19008, {"controllerId": "c3"})
    (forward,) = c2.take(fx.ForwardToLeader)
    assert forward.address == "c1:9878" and forward.request.ext["controllerId"] == "c3"


def test_an_invitation_of_another_term_is_not_followed() -> None:
    _, c2, _ = trio()
    c2.request(19008, {"claimInTerm": "7"}, oneway=True)
    assert not c2.core.is_active


def test_an_invitation_that_is_not_one_way_is_answered() -> None:
    _, c2, _ = trio()
    refused = c2.request(19008, {"claimInTerm": "7"})
    assert refused is not None and refused.code == 1 and "not followed" in (refused.remark or "")
    followed = c2.request(19008, {"claimInTerm": str(c2.state.term)})
    assert followed is not None and followed.code == 0 and c2.core.is_active


def test_a_claim_that_never_comes_ends_the_wait() -> None:
    leader, _, _ = trio()
    beat(leader, "c2", 1)
    leader.request(19008)
    leader.pass_time(3_000)
    replies = [one.response for one in leader.take(fx.Reply)]
    assert [one.code for one in replies] == [1] and ("c2 has not claimed") in (
        replies[0].remark or ""
    )


def test_d8_a_leader_that_hears_far_fewer_brokers_than_another_controller_steps_aside() -> None:
    leader, c2, _ = trio()
    for _ in range(20):
        ext = {
            "controllerId": "c2",
            "active": "false",
            "able": "true",
            "term": "1",
            "appliedOffset": "1",
            "brokersHeard": "18",
        }
        leader.request(19001, ext, conn=9, oneway=True)
        leader.tick(100)
    words = [one for one in leader.take(fx.TellPeer) if one.command.code == 19008]
    assert [one.address for one in words] == ["c2:9878"], "one offer at a time"
    c2.request(19008, words[0].command.ext, oneway=True)
    assert c2.core.is_active and c2.published[-1].cause == "leadership_transferred"


def test_a_former_leader_that_has_not_heard_of_its_successor_does_not_say_that_it_leads() -> None:
    leader, standby, _ = trio()
    leader.auto = False
    leader.sent.clear()
    assert leader.request(19008, {"controllerId": "c1"}) is None
    (question,) = leader.take(fx.AskEndOffset)
    standby.pass_time(2_000)
    assert standby.core.is_active
    leader.perform(leader.core.on_end_offset(question.token, len(leader.log.records)))
    assert leader.take(fx.Reply) == [], "it has not applied what the log holds"
    leader.catch_up()
    assert [one.response.code for one in leader.take(fx.Reply)] == [2007]
