"""The fold: order of the log, what is readable, repeats, and the chained digest."""

from hashlib import sha256

import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import COMMAND_FINGERPRINTS, encode, fingerprint_of
from events.commands import ActivateRules, ApplyBrokerId, ElectMaster, RegisterBroker
from events.envelope import DIGEST_BYTES
from processors.fold import canonical
from processors.fold.folder import (
    DIGESTS_KEPT,
    READ_AHEAD,
    ZERO_DIGEST,
    Folder,
    HoleInLog,
    ReleaseTooOld,
)
from processors.fold.rules import RULES_VERSION, SETTING_DEDUPE_WINDOW
from processors.fold.state import ControllerState
from tests.support.control_history import CLUSTER, NAME, History, address, seen, with_master

# --- order ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 0, 1, 3, 99])
def test_s11_a_record_that_is_not_the_next_one_stops_the_fold(offset):
    history = History()
    before = (history.folder.state, history.folder.digest, history.folder.offset)
    with pytest.raises(HoleInLog) as caught:
        history.folder.apply(offset, history.records[0])
    assert (caught.value.expected, caught.value.got) == (2, offset)
    assert (history.folder.state, history.folder.digest, history.folder.offset) == before


def test_an_empty_folder_waits_for_offset_0():
    folder = Folder()
    assert (folder.offset, folder.next_offset, folder.digest) == (-1, 0, ZERO_DIGEST)
    assert folder.state == ControllerState()


def test_a_copy_of_a_folder_stays_where_it_was():
    history = with_master(1)
    twin = history.folder.copy()
    offset, digest, state = twin.offset, twin.digest, twin.state
    record = encode(RegisterBroker(history.envelope(), CLUSTER, NAME, 1, address(1)))
    history.append(record)
    assert (twin.offset, twin.digest, twin.state) == (offset, digest, state)
    twin.apply(twin.next_offset, record)
    assert twin.digest == history.folder.digest


# --- what is readable ----------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\xc3\x01", b"hello", b"{}" * 99], ids=repr)
def test_d3_garbage_is_a_refusal_at_its_offset(data):
    history = with_master(1)
    applied = history.append(data)
    assert applied.record is None
    assert (applied.outcome.kind, applied.outcome.refusal) == ("Unreadable", "UNREADABLE")
    assert applied.outcome.command_offset == applied.offset


def test_d3_an_active_schema_with_a_torn_body_is_unreadable():
    history = with_master(1)
    record = history.records[-1]
    assert history.append(record[:-1]).outcome.refusal == "UNREADABLE"
    assert history.append(record + b"\x00").outcome.refusal == "UNREADABLE"


def test_d3_a_schema_that_is_not_active_is_refused_unread():
    """For old and new software alike: also when this release could read it."""
    history = with_master(1)
    header = BrokerEventHeader(b"e" * 16, "c", "b", 1, "i", 1, 0)
    known = history.append(encode(HaLinkUp(header, 2, "inbound")))
    unknown = history.append(b"\xc3\x01" + bytes(8) + b"whatever")
    assert known.outcome.refusal == unknown.outcome.refusal == "UNKNOWN_SCHEMA"


def test_d3_an_active_schema_that_this_release_does_not_have_stops_it():
    history = with_master(1)
    marks = (*COMMAND_FINGERPRINTS, "00" * 8)
    assert history.do(ActivateRules(history.envelope(), RULES_VERSION, marks)).accepted
    before = (history.folder.offset, history.folder.digest)
    with pytest.raises(ReleaseTooOld, match="00" * 8):
        history.folder.apply(history.folder.next_offset, b"\xc3\x01" + bytes(8))
    assert (history.folder.offset, history.folder.digest) == before


def test_an_active_schema_that_is_no_command_is_unreadable():
    history = with_master(1)
    marks = (*COMMAND_FINGERPRINTS, fingerprint_of(HaLinkUp))
    assert history.do(ActivateRules(history.envelope(), RULES_VERSION, marks)).accepted
    header = BrokerEventHeader(b"e" * 16, "c", "b", 1, "i", 1, 0)
    record = encode(HaLinkUp(header, 2, "inbound"))
    assert history.append(record).outcome.refusal == "UNREADABLE"


def test_before_the_cluster_is_formed_everything_else_is_refused():
    history = History(formed=False)
    formed = History()
    assert history.append(formed.records[1]).outcome.refusal == "NOT_FORMED"
    assert history.append(b"").outcome.refusal == "NOT_FORMED"
    assert history.append(formed.records[0]).outcome.accepted


# --- repeats -------------------------------------------------------------------------------


def test_d5_the_same_command_again_gets_the_first_outcome_and_changes_nothing():
    history = with_master(1, 2, 3)
    command = ElectMaster(
        history.envelope(),
        CLUSTER,
        NAME,
        -1,
        False,
        None,
        None,
        (seen(1, alive=False), seen(2), seen(3)),
    )
    first = history.do(command)
    assert first.accepted
    again = history.do(command)
    assert (again.accepted, again.refusal, again.code) == (True, None, 0)
    assert (again.labels, again.changes, again.candidates) == (("REPEAT",), (), ())
    assert history.set.master_epoch == 2


def test_d5_a_refused_command_again_is_refused_again():
    history = with_master(1)
    command = RegisterBroker(history.envelope(), CLUSTER, NAME, 9, "h:1")
    first = history.do(command)
    retry = replace(command, envelope=history.envelope(command_id=first.command_id))
    assert history.do(retry).code == 2010
    assert history.do(command).labels == ("REPEAT",)


def test_d5_the_retry_of_another_controller_in_another_term_gets_the_first_outcome():
    history = with_master(1, 2)
    command = ApplyBrokerId(history.envelope(), CLUSTER, NAME, 4, "h4:1;x")
    assert history.do(command).accepted
    history.claim(1)
    retry = replace(command, envelope=history.envelope(command_id=command.envelope.command_id))
    outcome = history.do(retry)
    assert (outcome.accepted, outcome.labels) == (True, ("REPEAT",))
    assert history.set.next_broker_id == 5


def test_a_command_refused_for_its_term_may_come_again_and_be_decided():
    """Or the asker of a deposed leader would never get an answer."""
    history = with_master(1)
    history.claim(1)
    envelope = history.envelope(term=1)
    stale = ApplyBrokerId(envelope, CLUSTER, NAME, 4, "h4:1;x")
    assert history.do(stale).refusal == "STALE_TERM"
    retry = replace(stale, envelope=history.envelope(command_id=envelope.command_id))
    assert (history.do(retry).accepted, history.set.next_broker_id) == (True, 5)


def test_one_id_for_two_different_commands_is_refused():
    history = with_master(1)
    command = ApplyBrokerId(history.envelope(), CLUSTER, NAME, 4, "h4:1;x")
    history.do(command)
    other = RegisterBroker(
        history.envelope(command_id=command.envelope.command_id), CLUSTER, NAME, 4, address(4)
    )
    outcome = history.do(other)
    assert (outcome.code, outcome.refusal) == (2005, "COMMAND_ID_REUSED")


def test_d5_a_retry_from_before_the_window_is_refused():
    history = with_master(1)
    history.setting(SETTING_DEDUPE_WINDOW, "3")
    old = ApplyBrokerId(history.envelope(), CLUSTER, NAME, 4, "h4:1;x")
    history.do(old)
    for expected in (["REPEAT"], ["REPEAT"], ["REPEAT"], []):
        outcome = history.do(old)
        assert list(outcome.labels) == expected
    assert outcome.refusal == "OUTSIDE_WINDOW"
    assert history.set.next_broker_id == 5


def test_d5_the_window_forgets_what_is_outside():
    history = with_master(1)
    history.setting(SETTING_DEDUPE_WINDOW, "5")
    for _ in range(20):
        history.register(1)
    assert len(history.folder.recent) == 5
    history.setting(SETTING_DEDUPE_WINDOW, "1")
    assert len(history.folder.recent) == 1


def test_d5_a_wider_window_does_not_bring_back_what_was_forgotten():
    history = with_master(1)
    history.setting(SETTING_DEDUPE_WINDOW, "3")
    old = ApplyBrokerId(history.envelope(), CLUSTER, NAME, 4, "h4:1;x")
    history.do(old)
    for _ in range(5):
        history.register(1)
    history.setting(SETTING_DEDUPE_WINDOW, "1000")
    assert history.do(old).refusal == "OUTSIDE_WINDOW"


# --- the digest ----------------------------------------------------------------------------


def test_the_digest_chains_record_outcome_and_changed_sets():
    history = with_master(1, 2)
    before = history.folder.digest
    outcome = history.register(3, "i3-again")
    data = history.records[-1]
    text = canonical.outcome_text(outcome).encode()
    changed = canonical.set_text(history.set).encode()
    lengths = outcome.command_offset.to_bytes(8, "big") + b"".join(
        len(part).to_bytes(4, "big") for part in (data, text, changed)
    )
    assert outcome.digest == sha256(before + lengths + data + text + changed).digest()
    assert history.folder.digest == outcome.digest


def test_one_flipped_bit_changes_every_digest_from_there_on():
    history = with_master(1, 2, 3)
    flipped = list(history.records)
    at = 4
    flipped[at] = flipped[at][:-1] + bytes([flipped[at][-1] ^ 1])
    one, other = Folder(), Folder()
    for offset, (a, b) in enumerate(zip(history.records, flipped, strict=True)):
        same = one.apply(offset, a).outcome.digest == other.apply(offset, b).outcome.digest
        assert same == (offset < at)


def test_d7_a_digest_that_differs_from_the_issuers_is_seen():
    history = with_master(1)
    for envelope, agrees in (
        ({}, True),
        ({"applied_digest": b"x" * 32}, False),
        ({"applied_digest": b""}, None),
        ({"applied_offset": -1, "applied_digest": ZERO_DIGEST}, True),
        ({"applied_offset": 1_000_000}, False),
    ):
        command = RegisterBroker(history.envelope(**envelope), CLUSTER, NAME, 1, address(1))
        applied = history.folder.apply(history.folder.next_offset, encode(command))
        assert applied.digest_agrees is agrees


def test_d7_a_digest_too_far_back_is_not_compared():
    history = with_master(1)
    digest, offset = history.folder.digest, history.folder.offset
    for _ in range(DIGESTS_KEPT):
        history.folder.apply(history.folder.next_offset, b"")
    late = history.envelope(applied_offset=offset - 1, applied_digest=digest)
    command = RegisterBroker(late, CLUSTER, NAME, 1, address(1))
    applied = history.folder.apply(history.folder.next_offset, encode(command))
    assert applied.digest_agrees is None


def test_d3_rules_that_this_release_does_not_have_stop_it_where_they_begin():
    history = with_master(1)
    newer = ActivateRules(history.envelope(), 99, COMMAND_FINGERPRINTS)
    before = (history.folder.offset, history.folder.digest)
    with pytest.raises(ReleaseTooOld, match="rules 99"):
        history.folder.apply(history.folder.next_offset, encode(newer))
    assert (history.folder.offset, history.folder.digest) == before
    history.folder.supported_rules = (*history.folder.supported_rules, 99)
    assert history.folder.copy().apply(history.folder.next_offset, encode(newer)).outcome.accepted


# --- in bulk -------------------------------------------------------------------------------


def in_bulk(records) -> tuple[Folder, list[int]]:
    folder = Folder()
    return folder, folder.apply_many(0, records)


def busy_history() -> History:
    """More than is read ahead, with all that a reader ahead could get wrong: garbage, repeats,
    other schemas.
    """
    history = with_master(1, 2, 3, rules=1)
    for number in range(2 * READ_AHEAD):
        history.register(1 + number % 3, incarnation=f"i{number}")
        history.append(history.records[-1])
    history.setting(SETTING_DEDUPE_WINDOW, "5")
    history.append(b"garbage")
    assert history.do(
        ActivateRules(history.envelope(), RULES_VERSION, COMMAND_FINGERPRINTS)
    ).accepted
    assert history.import_set(7, 8, broker_name="imported").accepted
    history.claim(1)
    return history


def test_in_bulk_the_same_comes_out_as_one_by_one():
    history = busy_history()
    folder, differ = in_bulk(history.records)
    assert (folder.digest, folder.state, folder.offset) == (
        history.folder.digest,
        history.folder.state,
        history.folder.offset,
    )
    assert list(folder.recent.items()) == list(history.folder.recent.items())
    assert differ == []


def test_in_bulk_each_record_gives_what_it_gives_alone():
    """Digests of the state included, which every hundredth outcome carries."""
    history = busy_history()
    alone, bulk, told = Folder(), Folder(), []
    wanted = [alone.apply(offset, data) for offset, data in enumerate(history.records)]
    bulk.apply_each(0, history.records[:70], told)
    bulk.apply_each(70, history.records[70:], told)
    assert told == wanted
    assert sum(bool(one.outcome.state_digest) for one in told) >= 2
    with pytest.raises(HoleInLog):
        bulk.apply_each(0, history.records, told)
    assert len(told) == len(history.records)


def test_in_bulk_what_came_before_a_record_that_stops_this_release_is_told():
    history = with_master(1)
    marks = (*COMMAND_FINGERPRINTS, "00" * 8)
    assert history.do(ActivateRules(history.envelope(), RULES_VERSION, marks)).accepted
    folder, told = Folder(), []
    with pytest.raises(ReleaseTooOld, match="00" * 8):
        folder.apply_each(0, [*history.records, b"\xc3\x01" + bytes(8)], told)
    assert [one.offset for one in told] == list(range(len(history.records)))
    assert told[-1].outcome.digest == folder.digest == history.folder.digest


def test_in_bulk_a_schema_counts_from_the_record_that_makes_it_active():
    history = with_master(1)
    header = BrokerEventHeader(b"e" * 16, "c", "b", 1, "i", 1, 0)
    event = encode(HaLinkUp(header, 2, "inbound"))
    assert history.append(event).outcome.refusal == "UNKNOWN_SCHEMA"
    history.do(
        ActivateRules(
            history.envelope(), RULES_VERSION, (*COMMAND_FINGERPRINTS, fingerprint_of(HaLinkUp))
        )
    )
    assert history.append(event).outcome.refusal == "UNREADABLE"
    assert in_bulk(history.records)[0].digest == history.folder.digest


def test_in_bulk_what_came_before_a_record_that_stops_this_release_is_applied():
    history = with_master(1)
    marks = (*COMMAND_FINGERPRINTS, "00" * 8)
    assert history.do(ActivateRules(history.envelope(), RULES_VERSION, marks)).accepted
    history.register(1, incarnation="again")
    folder = Folder()
    with pytest.raises(ReleaseTooOld, match="00" * 8):
        folder.apply_many(0, [*history.records, b"\xc3\x01" + bytes(8), *history.records])
    assert (folder.digest, folder.state, folder.offset) == (
        history.folder.digest,
        history.folder.state,
        history.folder.offset,
    )


def test_in_bulk_it_tells_where_the_issuer_had_another_digest():
    history = with_master(1)
    first = history.folder.next_offset
    wrong = history.envelope(applied_digest=b"x" * DIGEST_BYTES)
    later = replace(history.envelope(command_id=b"l" * 16), applied_offset=first + 2)  # Itself.
    strange = [encode(RegisterBroker(one, CLUSTER, NAME, 1, address(1))) for one in (wrong, later)]
    agreeing = encode(
        RegisterBroker(history.envelope(command_id=b"a" * 16), CLUSTER, NAME, 1, address(1))
    )
    folder, differ = in_bulk([*history.records, strange[0], agreeing, strange[1], agreeing])
    assert differ == [first, first + 2] and folder.offset == first + 3


def test_in_bulk_a_hole_stops_the_fold():
    history = with_master(1)
    folder, _ = in_bulk(history.records)
    with pytest.raises(HoleInLog):
        folder.apply_many(folder.next_offset + 1, history.records)
    assert (
        folder.digest == history.folder.digest and folder.apply_many(folder.next_offset, []) == []
    )
