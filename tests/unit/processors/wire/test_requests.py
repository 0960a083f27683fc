"""Requests to commands (RULES 3, the request side)."""

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest, Fields
from events.commands import AlterSyncStateSet, CleanBrokerData, ElectMaster, RegisterBroker
from events.envelope import Envelope, ReplicaEvidence
from processors.fold.rules import RULES
from processors.wire import requests
from processors.wire.operator_requests import cause_of

ENVELOPE = Envelope(bytes(16), "cluster", 1, "c1", 0, "broker_request")


def no_evidence(name: str, asker: int | None, also: str = "") -> tuple[ReplicaEvidence, ...]:
    return ()


def build(code: int, ext: dict[str, str], body: bytes = b"", evidence=no_evidence):  # type: ignore[no-untyped-def]
    return requests.BROKER_BUILDERS[code](
        RemotingCommand.request(code, ext, body), ENVELOPE, evidence
    )


def test_a_heartbeat_has_the_defaults_of_java() -> None:
    ext = {
        "clusterName": "C",
        "brokerName": "a",
        "brokerId": "7",
        "brokerAddr": "h:1",
        "unknown": "x",
    }
    beat = requests.heartbeat_of(RemotingCommand.request(904, ext))
    assert (beat.key, beat.address) == (("C", "a", 7), "h:1")
    assert (beat.epoch, beat.max_offset, beat.confirm_offset) == (-1, -1, -1)
    assert (beat.timeout_ms, beat.election_priority) == (10_000, 2_147_483_647)


def test_a_heartbeat_without_broker_id_is_2005() -> None:
    with pytest.raises(BadRequest) as caught:
        requests.heartbeat_of(
            RemotingCommand.request(
                904, {"clusterName": "C", "brokerName": "a", "brokerAddr": "h:1"}
            )
        )
    assert caught.value.code == 2005


def test_a_java_registration_leaves_our_facts_unknown() -> None:
    command = build(
        1003,
        {
            "clusterName": "C",
            "brokerName": "a",
            "brokerId": "1",
            "brokerAddress": "h:1",
            "invokeTime": "9",
        },
    )
    assert command == RegisterBroker(ENVELOPE, "C", "a", 1, "h:1")
    assert requests.introduction_of(command) == (("C", "a", 1), "h:1", None, None)


def test_a_registration_of_ours_carries_incarnation_and_position() -> None:
    ext = {
        "clusterName": "C",
        "brokerName": "a",
        "brokerId": "1",
        "brokerAddress": "h:1",
        "regentIncarnation": "i",
        "regentClean": "false",
        "regentHaAddress": "h:2",
        "regentLastEpoch": "3",
        "regentEndOffset": "700",
    }
    command = build(1003, ext)
    assert command == RegisterBroker(ENVELOPE, "C", "a", 1, "h:1", "h:2", "i", False, 3, 700)
    assert requests.introduction_of(command) == (("C", "a", 1), "h:1", "i", (3, 700))


@pytest.mark.parametrize(
    ("row", "heard"),
    [
        (ReplicaEvidence(1, False, "connection_closed", 5, 3, 900, 800, 1, "before"), (3, 800)),
        (ReplicaEvidence(1, True, "heartbeat", 5, 3, 900, 800, 1, "i"), (None, None)),
        (ReplicaEvidence(1, True, "heartbeat", 5, -1, 900, 800, 1, "before"), (None, None)),
        (ReplicaEvidence(1, True, "heartbeat", 5, 3, 900, -1, 1, "before"), (None, None)),
        (ReplicaEvidence(1, True, "heartbeat", 5, 3, 900, 800, 1, None), (None, None)),
        (ReplicaEvidence(2, True, "heartbeat", 5, 3, 900, 800, 1, "before"), (None, None)),
    ],
    ids=[
        "the start before",
        "this start",
        "no epoch",
        "no confirm offset",
        "a Java start",
        "another replica",
    ],
)
def test_a_registration_carries_what_was_heard_of_the_start_before(row, heard) -> None:  # type: ignore[no-untyped-def]
    ext = {
        "clusterName": "C",
        "brokerName": "a",
        "brokerId": "1",
        "brokerAddress": "h:1",
        "regentIncarnation": "i",
    }
    command = build(1003, ext, evidence=lambda name, asker, also="": (row,))
    assert (
        isinstance(command, RegisterBroker) and (command.heard_epoch, command.heard_offset) == heard
    )


@pytest.mark.parametrize(("incarnation", "heard"), [(None, (3, 800)), ("ours", (None, None))])
def test_a_java_registration_carries_what_java_named_last(incarnation, heard) -> None:  # type: ignore[no-untyped-def]
    row = ReplicaEvidence(1, False, "connection_closed", 5, 3, 900, 800, 1, incarnation)
    ext = {"clusterName": "C", "brokerName": "a", "brokerId": "1", "brokerAddress": "h:1"}
    command = build(1003, ext, evidence=lambda name, asker, also="": (row,))
    assert (
        isinstance(command, RegisterBroker) and (command.heard_epoch, command.heard_offset) == heard
    )


def test_an_alter_sorts_the_wanted_members_and_asks_for_evidence_of_the_master() -> None:
    asked = []

    def evidence(name: str, asker: int | None) -> tuple[ReplicaEvidence, ...]:
        asked.append((name, asker))
        return (ReplicaEvidence(1, True, "asked"),)

    ext = {"brokerName": "a", "masterBrokerId": "1", "masterEpoch": "4"}
    command = build(1001, ext, b'{"syncStateSet":[3,1,3],"syncStateSetEpoch":9}', evidence)
    assert isinstance(command, AlterSyncStateSet)
    assert (
        command.new_sync_state_set,
        command.expected_set_epoch,
        command.expected_master_epoch,
    ) == ((1, 3), 9, 4)
    assert asked == [("a", 1)] and command.evidence[0].reason == "asked"


ALTER = {"brokerName": "a", "masterBrokerId": "1", "masterEpoch": "4"}
BODY = b'{"syncStateSet":[1],"syncStateSetEpoch":9}'


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        (None, ()),
        ("", ()),
        ("3,2,3", (2, 3)),
        (",".join(map(str, range(1_024))), tuple(range(1_024))),
    ],
)
def test_an_alter_names_whom_the_master_proved_to_have_lost_data(
    told: str | None, lost: tuple[int, ...]
) -> None:
    command = build(1001, ALTER if told is None else ALTER | {"regentLostMembers": told}, BODY)
    assert isinstance(command, AlterSyncStateSet) and command.lost_members == lost


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("2;3", "something else than ids"),
        ("2,", "something else"),
        (" 2", "something else"),
        (str(1 << 63), "something else"),
        ("2,x" * 9_000, "more than 1024 members"),
        ("9" * 1_000_000, "something else"),
    ],
)
def test_an_alter_with_unreadable_lost_members_is_refused_and_says_why(told: str, why: str) -> None:
    with pytest.raises(BadRequest, match=f"regentLostMembers .*{why}") as caught:
        build(1001, ALTER | {"regentLostMembers": told}, BODY)
    assert caught.value.code == 1 and len(str(caught.value)) < 120


@pytest.mark.parametrize("rules", [2, 3])
def test_what_active_schemas_cannot_hold_is_left_out_of_a_command(rules: int) -> None:
    command = build(1001, ALTER | {"regentLostMembers": "3"}, BODY)
    active = requests.as_active(command, RULES[rules].fingerprints)
    assert active.lost_members == ((3,) if rules == 3 else ())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"syncStateSet":1}',
        b'{"syncStateSet":[true]}',
        b'{"syncStateSet":["1"]}',
        b'{"syncStateSet":[1],"syncStateSetEpoch":"x"}',
        b'{"syncStateSet":[99999999999999999999]}',
    ],
)
def test_an_alter_with_an_unreadable_body_is_refused_with_code_1(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        build(1001, {"brokerName": "a", "masterBrokerId": "1", "masterEpoch": "4"}, body)
    assert caught.value.code == 1


def test_an_election_without_fields_asks_for_nobody_in_particular() -> None:
    command = build(1002, {})
    assert isinstance(command, ElectMaster)
    assert (command.cluster_name, command.broker_name, command.broker_id, command.designate) == (
        "",
        "",
        -1,
        False,
    )
    assert (command.expected_master_epoch, command.expected_set_epoch) == (None, None)


@pytest.mark.parametrize(("designate", "asker"), [("false", 2), ("true", None)])
def test_an_operators_wish_is_no_sign_of_life(designate: str, asker: int | None) -> None:
    asked = []
    build(
        1002,
        {"brokerName": "a", "brokerId": "2", "designateElect": designate},
        b"",
        lambda name, who: asked.append(who) or (),
    )
    assert asked == [asker]


def test_cleaning_reads_the_list_of_ids() -> None:
    ext = {
        "clusterName": "C",
        "brokerName": "a",
        "brokerControllerIdsToClean": "3;1; 2;",
        "isCleanLivingBroker": "true",
    }
    command = build(1011, ext)
    assert isinstance(command, CleanBrokerData) and (command.broker_ids, command.clean_living) == (
        (1, 2, 3),
        True,
    )
    whole = build(1011, {"brokerName": "a", "brokerControllerIdsToClean": ""})
    assert isinstance(whole, CleanBrokerData) and (whole.broker_ids, whole.clean_living) == (
        None,
        False,
    )


@pytest.mark.parametrize(
    "listed", ["1;two", "1;;2", ";1", "1_0", "1,2", str(1 << 63), ";".join(map(str, range(1_025)))]
)
def test_cleaning_something_else_than_ids_is_2009(listed: str) -> None:
    with pytest.raises(BadRequest) as caught:
        build(1011, {"brokerName": "a", "brokerControllerIdsToClean": listed})
    assert caught.value.code == 2009


def test_a_list_without_any_id_is_not_the_whole_set() -> None:
    command = build(1011, {"brokerName": "a", "brokerControllerIdsToClean": " ;; "})
    assert isinstance(command, CleanBrokerData) and command.broker_ids == ()


def test_whoever_speaks_under_an_id_lives_for_a_cleaning_whichever_start_is_registered() -> None:
    rows = (
        ReplicaEvidence(1, False, "stale_incarnation"),
        ReplicaEvidence(2, False, "probe_refused"),
        ReplicaEvidence(3, True, "heartbeat"),
    )
    command = build(1011, {"brokerName": "a"}, evidence=lambda name, asker, also: rows)
    assert isinstance(command, CleanBrokerData) and [row.alive for row in command.evidence] == [
        True,
        False,
        True,
    ]


def test_whom_a_controller_could_not_hear_yet_may_live_for_a_cleaning() -> None:
    rows = (ReplicaEvidence(1, False, "never_seen"), ReplicaEvidence(2, False, "not_heard_yet"))
    command = build(1011, {"brokerName": "a"}, evidence=lambda name, asker, also: rows)
    assert isinstance(command, CleanBrokerData) and [row.alive for row in command.evidence] == [
        False,
        True,
    ]


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2])
def test_a_heartbeat_whose_epoch_leaves_none_for_the_next_master_is_not_heard(epoch: int) -> None:
    request = RemotingCommand.request(
        904,
        {
            "clusterName": "C",
            "brokerName": "a",
            "brokerId": "7",
            "brokerAddr": "h:1",
            "epoch": str(epoch),
        },
    )
    if epoch < 2**31 - 1:
        assert requests.heartbeat_of(request).epoch == epoch
        return
    with pytest.raises(BadRequest) as caught:
        requests.heartbeat_of(request)
    assert caught.value.code == 2005


@pytest.mark.parametrize("text", ["zz", "ab", "ab" * 17])
def test_a_command_id_must_be_16_bytes_in_hex(text: str) -> None:
    with pytest.raises(BadRequest):
        requests.command_id_of(RemotingCommand.request(1001, {"regentCommandId": text}))


def test_a_command_id_is_read() -> None:
    assert requests.command_id_of(RemotingCommand.request(1001)) is None
    assert (
        requests.command_id_of(RemotingCommand.request(1001, {"regentCommandId": "ab" * 16}))
        == b"\xab" * 16
    )


def test_operators_are_told_from_brokers() -> None:
    assert cause_of(RemotingCommand.request(1002, {"designateElect": "true"})) == "operator_request"
    assert cause_of(RemotingCommand.request(1011)) == "operator_request"
    assert cause_of(RemotingCommand.request(1002)) == "broker_request"


@pytest.mark.parametrize("value", ["", "x", "1.5", "1_0", str(1 << 63)])
def test_a_number_that_is_needed_and_is_none_is_an_error(value: str) -> None:
    with pytest.raises(BadRequest):
        Fields({"n": value}).number("n")


def test_an_absent_number_has_its_default_and_an_unreadable_one_only_where_it_is_said() -> None:
    fields = Fields({"bad": "x", "good": "4"})
    assert (fields.number("none", 7), fields.number("good", 7)) == (7, 4)
    assert (
        fields.number_or("none", 7),
        fields.number_or("good", 7),
        fields.number_or("bad", 7),
    ) == (7, 4, 7)
    assert (fields.optional_number("none"), fields.optional_number("good")) == (None, 4)
    for unreadable in (lambda: fields.number("bad", 7), lambda: fields.optional_number("bad")):
        with pytest.raises(BadRequest):
            unreadable()


def test_texts_are_bounded_and_needed_unless_a_default_is_given() -> None:
    fields = Fields({"long": "x" * 256, "just": "x" * 255, "empty": ""})
    assert (
        fields.text("just") == "x" * 255
        and fields.text("none", "d") == "d"
        and fields.text("empty", "d") == ""
    )
    assert (fields.optional("empty"), fields.optional("none"), fields.optional("just")) == (
        None,
        None,
        "x" * 255,
    )
    for wrong in ("long", "empty", "none"):
        with pytest.raises(BadRequest):
            fields.text(wrong)


def test_a_flag_is_true_or_not() -> None:
    fields = Fields({"a": "TRUE", "b": "1", "c": ""})
    assert [fields.flag(name) for name in "abcd"] == [True, False, False, False]
    assert [fields.optional_flag(name) for name in "abcd"] == [True, False, None, None]
