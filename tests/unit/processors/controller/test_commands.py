"""Commands into the log and back, seen through one core (design D5)."""

import json

import pytest

from events.codec import decode, encode
from events.commands import ClusterFormed
from events.envelope import Envelope
from processors.controller import commands
from processors.controller import effects as fx
from processors.controller.overload import QUEUED_MAX_MS, UNABLE_AFTER_MS, UNDER_WAY_MAX
from tests.support.control_history import FIRST_FINGERPRINTS
from tests.support.controller_rig import SET, Log, Rig

APPLY = {
    "clusterName": "C",
    "brokerName": "b",
    "appliedBrokerId": "1",
    "registerCheckCode": "h:1;1",
}


def able_as_told(rig: Rig) -> str:
    """What this controller last told its peer about itself."""
    return rig.take(fx.TellPeer)[-1].command.ext["able"]


def test_an_answer_follows_the_applied_command_and_not_the_acknowledged_append() -> None:
    rig = Rig().lead()
    rig.auto = False
    rig.request(1013, APPLY)
    (append,) = rig.held
    rig.perform(rig.core.on_append_result(append.command_id, 2, rig.now_ms))
    assert rig.take(fx.Reply) == []
    rig.append(append)
    assert [reply.response.code for reply in rig.take(fx.Reply)] == [0]


def test_a_retry_after_an_unknown_append_is_appended_again() -> None:
    rig = Rig().lead()
    rig.auto = False
    ext = APPLY | {"regentCommandId": "ab" * 16}
    rig.request(1013, ext, conn=1)
    rig.perform(rig.core.on_append_result(rig.held[0].command_id, None, rig.now_ms))
    rig.request(1013, ext, conn=2)
    assert len(rig.held) == 2
    rig.append(rig.held[1])
    assert [reply.conn_id for reply in rig.take(fx.Reply)] == [1, 2]


@pytest.mark.parametrize("unknown", [False, True])
def test_an_id_that_is_another_requests_is_refused_and_both_are_told_what_is_theirs(
    unknown: bool,
) -> None:
    rig = Rig().lead()
    rig.auto = False
    rig.request(1013, APPLY | {"regentCommandId": "ab" * 16}, conn=1)
    if unknown:
        rig.perform(rig.core.on_append_result(rig.held[0].command_id, None, rig.now_ms))
    registration = {
        "clusterName": "C",
        "brokerName": "b",
        "brokerId": "9",
        "brokerAddress": "h:9",
        "regentCommandId": "ab" * 16,
    }
    refused = rig.request(1003, registration, conn=2)
    assert (
        refused is not None and refused.code == 2005 and "COMMAND_ID_REUSED" in str(refused.remark)
    )
    rig.append(rig.held[0])
    assert [(one.conn_id, one.response.code) for one in rig.take(fx.Reply) if one.conn_id == 1] == [
        (1, 0)
    ]


def test_who_is_named_as_the_asker_is_recorded_within_bounds() -> None:
    rig = Rig().lead()
    rig.request(1013, APPLY | {"regentForwardedFor": "x" * 100_000})
    assert len(rig.log.records[-1]) < 1_000


def test_envelopes_name_term_issuer_offset_digest_and_the_asker() -> None:
    rig = Rig().lead()
    offset, digest = rig.folder.offset, rig.folder.digest
    rig.request(1013, APPLY)

    envelope = decode(rig.log.records[-1]).envelope
    assert (envelope.term, envelope.issuer, envelope.requested_by) == (1, "c1", "peer:1")
    assert (envelope.applied_offset, envelope.applied_digest, envelope.cluster_id) == (
        offset,
        digest,
        "cluster",
    )
    assert envelope.issued_at_ms == rig.wall_ms


def test_a_leader_to_whom_nothing_comes_back_says_that_it_is_not_able() -> None:
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead()
    rig.tick(200)
    assert able_as_told(rig) == "true"
    rig.holds_appends = True
    rig.request(1013, APPLY)
    rig.perform(rig.core.on_append_result(rig.held[0].command_id, None, rig.now_ms))
    rig.pass_time(UNABLE_AFTER_MS + 300)
    assert able_as_told(rig) == "false"
    rig.request(1013, APPLY)
    rig.append(rig.held[-1])
    rig.tick(200)
    assert able_as_told(rig) == "true"


def test_a_queue_that_moves_is_able_however_long_it_is() -> None:
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead()
    rig.holds_appends = True
    for number in range(30):
        rig.request(1013, APPLY | {"brokerName": f"b{number}"})
    for append in rig.held[:20]:
        rig.append(append)
        rig.tick(100)
    assert able_as_told(rig) == "true"


def test_more_requests_than_may_wait_are_told_that_the_system_is_busy() -> None:
    rig = Rig(requests_max=1).lead()
    rig.auto = False
    assert rig.request(1013, APPLY) is None
    answer = rig.request(1013, APPLY)
    assert answer is not None and answer.code == 2


def test_a_request_that_has_no_encoding_is_refused_with_a_text() -> None:
    rig = Rig().lead()
    answer = rig.request(1013, APPLY | {"brokerName": "\ud800"})
    assert answer is not None and answer.code == 1 and "encoding" in (answer.remark or "")
    assert commands.busy is not None


def test_two_controllers_on_an_empty_log_form_one_cluster() -> None:
    log = Log()
    one, two = Rig("c1", log, {"c2": "c2:9878"}), Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    one.auto = two.auto = False
    for rig in (one, two):
        rig.pass_time(1_000)
    for rig in (one, two):
        for append in rig.held:
            log.records.append(append.data)
    for rig in (one, two):
        rig.catch_up()
    assert one.state == two.state and one.folder.digest == two.folder.digest
    assert one.state.cluster_id == "cluster"


def test_a_command_whose_schema_is_not_active_yet_is_refused_and_not_appended() -> None:
    """Under rules 1 an import in the log would be bytes that nobody reads (D3)."""
    log = Log()
    envelope = Envelope(bytes(16), "cluster", 0, "old", 1, "empty_log")
    log.records.append(encode(ClusterFormed(envelope, 1, {}, FIRST_FINGERPRINTS)))
    rig = Rig(log=log)
    rig.catch_up()
    rig.lead()
    fields = {
        "cluster_name": "C",
        "broker_name": "j",
        "next_broker_id": 3,
        "master_broker_id": 1,
        "master_epoch": 4,
        "sync_state_set": [1],
        "sync_state_set_epoch": 5,
        "source": "j:9878",
        "replicas": [{"broker_id": 1, "address": "h:1", "register_check_code": ""}],
    }
    body, before = json.dumps(fields).encode(), len(log.records)
    refused = rig.request(19006, body=body)
    assert refused is not None and refused.code == 1
    assert "rules 1" in (refused.remark or "") and len(log.records) == before
    assert rig.request(19005, body=b'{"rules_version":2}').code == 0
    assert rig.request(19006, body=body).code == 0
    assert rig.state.sets["j"].imported


def crowd(rig: Rig, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        rig.request(1013, APPLY | {"brokerName": f"crowd-{number}"}, conn=number + 10)


def test_what_is_more_than_may_be_under_way_waits_for_its_turn() -> None:
    rig = Rig().lead()
    rig.holds_appends = True
    crowd(rig, UNDER_WAY_MAX + 3)
    assert len(rig.held) == UNDER_WAY_MAX and rig.take(fx.Reply) == []
    rig.append(rig.held[0])
    assert len(rig.held) == UNDER_WAY_MAX + 1
    for append in rig.held[1 : UNDER_WAY_MAX + 1]:
        rig.append(append)
    assert len(rig.held) == UNDER_WAY_MAX + 3
    rig.take(fx.Reply)
    for append in rig.held[-2:]:
        rig.append(append)
    assert [reply.conn_id for reply in rig.take(fx.Reply)] == [
        UNDER_WAY_MAX + 11,
        UNDER_WAY_MAX + 12,
    ], "in order"


def test_whoever_waited_too_long_for_its_turn_is_told_that_the_system_is_busy() -> None:
    rig = Rig().lead()
    rig.holds_appends = True
    crowd(rig, UNDER_WAY_MAX + 1)
    rig.pass_time(QUEUED_MAX_MS)
    (reply,) = rig.take(fx.Reply)
    assert (reply.conn_id, reply.response.code) == (UNDER_WAY_MAX + 10, 2)


def test_a_leader_that_is_late_but_gets_its_own_commands_back_stays_able() -> None:
    """Nobody waits for them any more, appends are given up, and still the log is not out of
    reach.
    """
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead()
    rig.holds_appends = True
    crowd(rig, 80)
    for append in rig.held[:40]:
        rig.perform(rig.core.on_append_result(rig.held[60].command_id, None, rig.now_ms))
        rig.pass_time(200)
        rig.append(append)
        assert able_as_told(rig) == "true"
    rig.perform(rig.core.on_append_result(rig.held[70].command_id, None, rig.now_ms))
    rig.pass_time(2 * UNABLE_AFTER_MS)
    assert able_as_told(rig) == "false"


def test_who_waits_for_its_turn_when_another_one_leads_is_taken_along() -> None:
    log = Log()
    rig = Rig("c1", log, {"c2": "c2:9878"}).lead()
    heir = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    heir.catch_up()
    rig.holds_appends = True
    crowd(rig, UNDER_WAY_MAX + 1)
    heir.perform(heir.core.on_peer_closed("c1:9878", True, heir.now_ms))
    heir.pass_time(1_000)
    assert heir.core.is_active
    rig.take(fx.ForwardToLeader)
    rig.catch_up()
    assert [one.request.ext["brokerName"] for one in rig.take(fx.ForwardToLeader)] == [
        f"crowd-{UNDER_WAY_MAX}"
    ]


def test_under_overload_the_log_is_kept_busy_with_requests_that_are_answered_in_time() -> None:
    """Many more than the log takes in a deadline ask at once, and again when they are turned away
    or not answered.
    """
    rig, per_tick, many = Rig("c1", Log(), {"c2": "c2:9878"}).lead(), 8, 2_000
    rig.holds_appends = True
    again: dict[int, list[int]] = {0: list(range(many))}
    done: set[int] = set()
    codes: list[int] = []
    ticks = taken = 0
    while len(done) < many:
        for number in again.pop(ticks, ()):
            rig.request(
                1013,
                APPLY | {"brokerName": f"crowd-{number}", "regentCommandId": f"{number:032x}"},
                conn=number,
            )
        rig.tick(25)
        ticks += 1
        for append in rig.held[taken : taken + per_tick]:
            rig.append(append)
            taken += 1
        for reply in rig.take(fx.Reply):
            codes.append(reply.response.code)
            if reply.response.code == 0:
                done.add(reply.conn_id)
            else:
                again.setdefault(ticks + 8, []).append(reply.conn_id)
        assert all(told.command.ext["able"] == "true" for told in rig.take(fx.TellPeer))
    assert codes.count(1) < many / 20, "hardly anybody waits in vain"
    assert taken < many * 1.1 and ticks < many / per_tick * 1.2, "and hardly any work is done twice"


@pytest.mark.parametrize(("shown", "in_set"), [(101, [1, 3]), (100, [1, 2, 3])])
def test_a_member_that_starts_below_what_its_heartbeats_named_last_leaves_the_set(
    shown: int, in_set: list[int]
) -> None:
    """No decision was made since: the leader puts what it heard of the former start beside the
    registration (S15).
    """
    rig = Rig().lead().three()
    ext = {
        "clusterName": "C",
        "brokerName": SET,
        "brokerId": "2",
        "brokerAddr": "b2:10911",
        "regentIncarnation": "life-2",
    }
    told = {
        "epoch": "1",
        "maxOffset": str(shown + 7),
        "confirmOffset": str(shown),
        "heartbeatTimeoutMills": "3000",
    }
    rig.request(904, ext | told, conn=2)
    rig.close_connection(2)
    start = ext | {"brokerAddress": "b2:10911", "regentIncarnation": "again", "regentClean": "true"}
    rig.request(1003, start | {"regentLastEpoch": "1", "regentEndOffset": "100"}, conn=12)
    assert list(rig.state.sets[SET].sync_state_set) == in_set
    assert rig.state.sets[SET].replica(2).clean == (2 in in_set)


@pytest.mark.parametrize(
    ("start", "reason"),
    [("life-2", "heartbeat"), ("again", "position_not_shown"), (None, "heartbeat")],
)
def test_who_asks_to_lead_for_another_start_than_is_registered_has_no_position(
    start: str | None, reason: str
) -> None:
    """A registration can reach the log behind that of the next start: what it told of its log is
    not the asker's.
    """
    rig = Rig().lead().three()
    ext = {"clusterName": "C", "brokerName": SET, "brokerId": "2", "designateElect": "false"}
    rig.request(1002, ext if start is None else ext | {"regentIncarnation": start})
    rows = {row.broker_id: row.reason for row in decode(rig.log.records[-1]).evidence}
    assert rows[2] == reason
