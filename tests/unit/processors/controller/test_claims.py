"""Forming a cluster and claiming leadership (design D6)."""

from events.codec import decode, encode
from events.commands import ClaimLeadership, ClusterFormed
from processors.controller import effects as fx
from processors.controller.claims import (
    DEAF_FOR_MS,
    FORM_STAGGER_MS,
    OFFER_AGAIN_MS,
    Claims,
    DeafLeader,
)
from processors.controller.commands import Commands
from processors.controller.context import CoreConfig, CoreContext
from processors.fold.folder import Folder
from tests.support.controller_rig import Log, Rig, ids


class Reads:
    """Whether the log is read."""

    def __init__(self, able: bool = True) -> None:
        self.able = able

    def is_able(self) -> bool:
        return self.able

    def is_current(self, since_ms: int) -> bool:
        return self.able


def desk(name: str = "c1", *peers: str) -> tuple[CoreContext, Claims]:
    config = CoreConfig(name, f"{name}:1", "cluster", {peer: f"{peer}:1" for peer in peers})
    context = CoreContext(config, Folder(), ids())
    context.clock(1_000, 1_000)
    return context, Claims(context, Commands(context), Reads())


def test_nothing_is_issued_before_the_log_is_folded() -> None:
    _, made = desk()
    assert made.due() == []


def test_the_first_in_rank_forms_the_cluster_and_the_next_waits() -> None:
    _, first = desk("c1", "c2")
    first.start()
    (append,) = first.due()
    assert isinstance(decode(append.data), ClusterFormed)  # type: ignore[union-attr]
    assert first.due() == [], "one formation at a time"
    context, second = desk("c2", "c1")
    second.start()
    assert second.due() == []
    context.clock(1_000 + FORM_STAGGER_MS)
    assert len(second.due()) == 1


def test_a_claim_expects_the_term_that_was_applied_and_names_its_cause() -> None:
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.auto = False
    standby.tick()
    standby.perform(standby.core.on_peer_closed("c1:9878", True, standby.now_ms))
    claim = decode(standby.held[0].data)
    assert isinstance(claim, ClaimLeadership)
    assert (claim.expected_term, claim.controller_id, claim.controller_address) == (
        1,
        "c2",
        "c2:9878",
    )
    assert claim.envelope.cause == "leader_probe_refused"


def test_an_invitation_that_is_repeated_makes_one_claim() -> None:
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.auto = False
    for _ in range(5):
        standby.request(19008, {"claimInTerm": "1"}, oneway=True)
    assert len(standby.held) == 1


def test_who_does_not_read_the_log_claims_nothing() -> None:
    context, _ = desk("c1", "c2")
    reads = Reads(able=False)
    made = Claims(context, Commands(context), reads)
    made.start()
    assert made.due() == []
    reads.able = True
    assert len(made.due()) == 1


def test_a_leader_that_says_it_is_not_able_is_succeeded_by_who_has_read_the_log_since() -> None:
    """When the log is out of reach for all of them, leadership stays where it is."""
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.auto = False
    standby.pass_time(200)
    now_ms = standby.now_ms
    standby.perform(
        standby.core.on_peer_heartbeat(
            "c1", active=True, able=False, term=1, published_offset=0, now_ms=now_ms
        )
    )
    standby.pass_time(600)
    assert standby.held == []
    (question,) = standby.take(fx.AskEndOffset)
    standby.perform(standby.core.on_end_offset(question.token, len(log.records)))
    standby.tick()
    (append,) = standby.held
    assert decode(append.data).envelope.cause == "leader_not_able"


def test_who_is_behind_the_leader_that_is_not_able_does_not_succeed_it() -> None:
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.holds_appends = True

    def told(applied_offset: int) -> None:
        ext = {
            "controllerId": "c1",
            "active": "true",
            "able": "false",
            "term": "1",
            "appliedOffset": str(applied_offset),
        }
        standby.request(19001, ext, oneway=True)
        standby.tick()

    for _ in range(60):
        told(standby.folder.offset + 1)
    assert standby.held == []
    told(standby.folder.offset)
    (append,) = standby.held
    assert decode(append.data).envelope.cause == "leader_not_able"
    standby.append(append)
    assert standby.core.is_active


def test_every_leader_that_was_succeeded_for_not_being_able_makes_all_more_patient() -> None:
    log = Log()
    leader = Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    before_ms = leader.core._context.patience.limit_ms(leader.now_ms)
    ext = {
        "controllerId": "c1",
        "active": "true",
        "able": "false",
        "term": "1",
        "appliedOffset": "-1",
    }
    for _ in range(60):
        standby.request(19001, ext, oneway=True)
        standby.tick()
    leader.catch_up()
    assert standby.core.is_active and not leader.core.is_active
    for rig in (leader, standby):
        assert rig.core._context.patience.limit_ms(rig.now_ms) == 2 * before_ms


def test_a_namesake_that_claims_is_told_by_both_addresses() -> None:
    rig = Rig().lead()
    envelope = rig.core._context.envelope(b"n" * 16, "leader_silent")
    rig.log.records.append(encode(ClaimLeadership(envelope, 1, "c1", "elsewhere:9878", "test")))
    rig.catch_up()
    assert not rig.core.is_active
    (note,) = [one for one in rig.take(fx.Note) if one.level == "error"]
    assert "as c1" in note.text and "elsewhere:9878" in note.text and "c1:9878" in note.text


def test_a_leader_that_is_no_peer_is_named_once() -> None:
    log = Log()
    alone = Rig("c1", log).lead()
    for seed in (2, 3):
        Rig("c9", log, {"c1": "c1:9878"}, seed=seed).lead()
        alone.catch_up()
    (note,) = [one for one in alone.take(fx.Note) if one.level == "error"]
    assert "c9 at c9:9878 leads and is not among the peers of c1" in note.text


def claim_as_c1(log: Log, rig: Rig, address: str) -> None:
    context = rig.core._context
    envelope = context.envelope(bytes([len(log.records)]) * 16, "leader_silent")
    log.records.append(encode(ClaimLeadership(envelope, context.state.term, "c1", address, "test")))


def test_of_two_with_one_name_the_later_one_ends_when_the_other_claims_back() -> None:
    log = Log()
    first = Rig("c1", log).lead()
    claim_as_c1(log, first, "elsewhere:9878")  # the later one began to lead
    first.catch_up()
    later = Rig("c1", log, seed=2)
    later.catch_up()
    later.lead()
    assert later.take(fx.Halt) == []
    claim_as_c1(log, later, "elsewhere:9878")
    later.catch_up()
    (halt,) = later.take(fx.Halt)
    assert "that one led before this one: correct controller_id here" in halt.reason


def test_who_led_first_goes_on_however_often_the_other_claims() -> None:
    log = Log()
    first = Rig("c1", log).lead()
    for _ in range(3):
        claim_as_c1(log, first, "elsewhere:9878")
        first.catch_up()
        first.lead()
    assert first.take(fx.Halt) == [] and first.core.is_active


def test_a_controller_that_moved_is_not_its_own_namesake() -> None:
    log = Log()
    before = Rig("c1", log).lead()
    claim_as_c1(log, before, "old:9878")
    moved = Rig("c1", log, seed=2)
    moved.catch_up()
    moved.lead()
    assert moved.core.is_active and moved.take(fx.Halt) == []


def test_a_claim_of_its_own_and_one_of_another_controller_are_no_namesakes() -> None:
    log = Log()
    first = Rig("c1", log, {"c2": "c2:9878"}).lead()
    Rig("c2", log, {"c1": "c1:9878"}, seed=2).lead()
    first.catch_up()
    assert [one for one in first.take(fx.Note) if one.level == "error"] == []


def test_leadership_is_offered_to_whoever_hears_most_after_a_while_and_again_later() -> None:
    leader, heard = DeafLeader(), {"c2": 11, "c3": 18}
    assert leader.successor(5, heard, 0) is None
    assert leader.successor(5, heard, DEAF_FOR_MS - 1) is None
    assert leader.successor(5, heard, DEAF_FOR_MS) == "c3"
    assert leader.successor(5, heard, DEAF_FOR_MS + OFFER_AGAIN_MS - 1) is None
    assert leader.successor(5, heard, DEAF_FOR_MS + OFFER_AGAIN_MS) == "c3"


def test_half_of_them_is_enough_and_few_brokers_prove_nothing() -> None:
    for own, heard in ((9, {"c2": 18}), (0, {"c2": 10}), (0, {})):
        leader = DeafLeader()
        assert leader.successor(own, heard, 0) is None
        assert leader.successor(own, heard, 10 * DEAF_FOR_MS) is None


def test_hearing_again_ends_it() -> None:
    leader, heard = DeafLeader(), {"c2": 18}
    leader.successor(0, heard, 0)
    leader.successor(18, heard, DEAF_FOR_MS)
    assert leader.successor(0, heard, DEAF_FOR_MS + 1) is None


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
