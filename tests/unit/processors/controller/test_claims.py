"""Forming a cluster and claiming leadership (design D6)."""

from events.codec import decode, encode
from events.commands import ClaimLeadership, ClusterFormed
from processors.controller import effects as fx
from processors.controller.claims import FORM_STAGGER_MS, ClaimDesk
from processors.controller.commands import CommandDesk
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


def desk(name: str = "c1", *peers: str) -> tuple[CoreContext, ClaimDesk]:
    config = CoreConfig(name, f"{name}:1", "cluster", {peer: f"{peer}:1" for peer in peers})
    context = CoreContext(config, Folder(), ids())
    context.clock(1_000, 1_000)
    return context, ClaimDesk(context, CommandDesk(context), Reads())


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
    made = ClaimDesk(context, CommandDesk(context), reads)
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


def test_a_claim_of_its_own_and_one_of_another_controller_are_no_namesakes() -> None:
    log = Log()
    first = Rig("c1", log).lead()
    Rig("c2", log, {"c1": "c1:9878"}, seed=2).lead()
    first.catch_up()
    assert [one for one in first.take(fx.Note) if one.level == "error"] == []
