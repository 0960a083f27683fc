"""Records and bytes, both ways; what is not exactly one record is refused with one error."""

import json

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form
from msgspec import structs

import schemas
from events import codec
from events.broker_events import BROKER_EVENTS, BrokerEventHeader, SyncStateSetProposed
from events.changes import BrokerSetImported, MasterAtRisk, MasterElected, MembersRemembered
from events.codec import (
    COMMAND_BYTES_MAX,
    COMMAND_FINGERPRINTS,
    HEADER_BYTES,
    RECORD_BYTES_MAX,
    MalformedRecord,
    UnknownFingerprint,
    decode,
    encode,
    fingerprint_of,
)
from events.commands import (
    COMMANDS,
    AlterSyncStateSet,
    ChangeSettings,
    ClaimLeadership,
    ElectMaster,
    ImportBrokerSet,
    RegisterBroker,
)
from events.envelope import Envelope, ImportedReplica, ReplicaEvidence
from events.outcomes import Outcome

ENVELOPE = Envelope(bytes(range(16)), "c", 3, "n0", 5, "asked", None, 7, b"")
CLAIM = ClaimLeadership(ENVELOPE, 2, "n1", "h:1", "r")


def crc_64_avro(data: bytes) -> int:
    """Return the fingerprint as the Avro specification defines it, bit by bit."""
    empty = 0xC15D213AA4D7A795
    crc = empty
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (empty if crc & 1 else 0)
    return crc


def test_the_bytes_are_marker_fingerprint_and_avro_body():
    """A claim written by hand from the Avro specification."""
    text = to_parsing_canonical_form(schemas.load("ClaimLeadership"))
    head = b"\xc3\x01" + crc_64_avro(text.encode()).to_bytes(8, "little")
    envelope = bytes(range(16)) + b"\x02c" + b"\x06" + b"\x04n0" + b"\x0a" + b"\x0aasked" + b"\x00"
    assert encode(CLAIM) == head + envelope + b"\x0e" + b"\x00" + b"\x04" + b"\x04n1\x06h:1\x02r"


@pytest.mark.parametrize("cls", codec.RECORD_CLASSES, ids=lambda cls: cls.__name__)
def test_a_schema_is_never_edited_in_silence(cls):
    """The fingerprint in the file is the one of the schema.

    If this fails, a released schema was changed: give the record a new name or a new version
    instead, or, before its first release, write the new fingerprint into the file.
    """
    assert schemas.released_fingerprints()[cls.__name__] == fingerprint_of(cls)


@pytest.mark.parametrize("cls", codec.RECORD_CLASSES, ids=lambda cls: cls.__name__)
def test_fields_of_class_and_schema_have_the_same_names_in_the_same_order(cls):
    fields = [field["name"] for field in schemas.load(cls.__name__)["fields"]]
    assert list(cls.__struct_fields__) == fields


def test_commands_of_this_release_are_what_a_cluster_is_formed_with():
    former = {mark for cls in COMMANDS for mark in schemas.earlier(cls.__name__)}
    assert set(COMMAND_FINGERPRINTS) == {fingerprint_of(cls) for cls in COMMANDS} | former
    assert len(COMMANDS) + len(BROKER_EVENTS) + 1 == len(codec.RECORD_CLASSES)


def test_evidence_and_absent_values_survive_the_way():
    evidence = (ReplicaEvidence(1, True, "asked"), ReplicaEvidence(2, False, "never_seen"))
    command = ElectMaster(ENVELOPE, "", "b", -1, False, None, 4, evidence)
    assert decode(encode(command)) == command


def test_a_broker_event_survives_the_way():
    header = BrokerEventHeader(b"e" * 16, "c", "b", 1, "i", 5, 0)
    event = SyncStateSetProposed(header, (1, 2), 3, -1, -1)
    assert decode(encode(event)) == event


@pytest.mark.parametrize("length", range(len(encode(CLAIM))))
def test_a_truncated_record_is_refused(length):
    with pytest.raises(MalformedRecord):
        decode(encode(CLAIM)[:length])


def test_bytes_after_the_record_are_refused():
    with pytest.raises(MalformedRecord, match="1 bytes after"):
        decode(encode(CLAIM) + b"\x00")


def test_an_unknown_fingerprint_is_named():
    data = b"\xc3\x01" + bytes(range(8)) + b"rest"
    with pytest.raises(UnknownFingerprint) as caught:
        decode(data)
    assert caught.value.fingerprint_hex == bytes(range(8)).hex()


@pytest.mark.parametrize("data", [b"", b"\xc3", b"\xc3\x01\x00", b"{}" * 20], ids=repr)
def test_bytes_without_the_marker_are_refused(data):
    with pytest.raises(MalformedRecord):
        decode(data)


OUTCOME = Outcome(1, bytes(16), "c", 1, "X", None, "", False, "STALE_TERM", 2007)


@pytest.mark.parametrize(
    ("record", "limit"), [(CLAIM, COMMAND_BYTES_MAX), (OUTCOME, RECORD_BYTES_MAX)]
)
def test_an_oversized_record_is_neither_written_nor_read(record, limit):
    head = encode(record)[:HEADER_BYTES]
    with pytest.raises(MalformedRecord, match=f"limit {limit}"):
        decode(head + bytes(limit))
    with pytest.raises(MalformedRecord, match=f"limit {COMMAND_BYTES_MAX}"):
        encode(ChangeSettings(ENVELOPE, {"a": "x" * COMMAND_BYTES_MAX}))


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, -1, -(2**62)])
def test_an_announced_size_costs_no_memory(size):
    """A string that claims a huge length is refused without being allocated."""
    out = encode(CLAIM)[: HEADER_BYTES + 16]
    with pytest.raises(MalformedRecord):
        decode(out + zigzag(size) + b"c")


@pytest.mark.parametrize("count", [2**31, 2**40, 2**62, -(2**40)])
def test_an_announced_number_of_items_costs_no_memory(count):
    plain = encode(ElectMaster(ENVELOPE, "", "b", -1, False))
    with pytest.raises(MalformedRecord):
        decode(plain[:-1] + zigzag(count) + (b"\x00" if count < 0 else b""))


def zigzag(number: int) -> bytes:
    """Return an Avro long."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize(
    "record",
    [
        object(),
        ClaimLeadership(ENVELOPE, "2", "n1", "h:1", "r"),
        ClaimLeadership(ENVELOPE, 2**63, "n1", "h:1", "r"),
        ClaimLeadership(None, 2, "n1", "h:1", "r"),
        ClaimLeadership(Envelope(b"short", "c", 3, "n0", 5, "asked"), 2, "n1", "h:1", "r"),
        ClaimLeadership(ENVELOPE, 2, None, "h:1", "r"),
    ],
    ids=["no record", "text for a number", "too large", "no envelope", "short id", "no text"],
)
def test_what_has_no_bytes_is_refused(record):
    with pytest.raises(MalformedRecord):
        encode(record)


def test_other_avro_readers_understand_the_body():
    """Plain fastavro with the schema from the file reads what the codec wrote."""
    from io import BytesIO

    body = BytesIO(encode(CLAIM)[HEADER_BYTES:])
    schema = json.loads(json.dumps(schemas.load("ClaimLeadership")))
    plain = fastavro.schemaless_reader(body, schema)
    assert plain["envelope"]["issuer"] == "n0"
    assert plain["controller_id"] == "n1"


def test_an_outcome_may_carry_phases_outside_the_digest():
    outcome = Outcome(
        1, bytes(16), "c", 1, "X", None, "", False, "STALE_TERM", 2007, phases={"applied": 5}
    )
    assert decode(encode(outcome)) == outcome


FIRST_OUTCOME = "c9d8fa550e432cc1"
SECOND_OUTCOME = "0b0705af0bd96450"


def test_an_outcome_is_written_in_the_oldest_form_that_holds_it():
    """A release that runs beside this one during an upgrade reads it too."""
    elected = MasterElected("b", 1, "h:1", 2, (1,), 3, 2)
    plain = Outcome(1, bytes(16), "c", 1, "X", "b", "", True, None, 0, changes=(elected,))
    assert encode(plain)[2:HEADER_BYTES].hex() == FIRST_OUTCOME
    newer = Outcome(
        1, bytes(16), "c", 1, "X", "b", "", True, None, 0, changes=(elected, MasterAtRisk("b", 2))
    )
    assert encode(newer)[2:HEADER_BYTES].hex() == SECOND_OUTCOME
    newest = structs.replace(newer, changes=(elected, MembersRemembered("b", (2,), (1, 2))))
    assert encode(newest)[2:HEADER_BYTES].hex() == fingerprint_of(Outcome) != SECOND_OUTCOME
    proven = structs.replace(plain, state_digest=b"x" * 32)
    assert encode(proven)[2:HEADER_BYTES].hex() == fingerprint_of(Outcome)
    for outcome in (plain, newer, newest, proven):
        assert decode(encode(outcome)) == outcome


def test_a_command_is_written_in_the_oldest_form_that_holds_it():
    plain = RegisterBroker(ENVELOPE, "c", "b", 1, "h:1", "h:2", "i", True, 3, 4)
    telling = structs.replace(plain, min_in_sync=2)
    heard = structs.replace(plain, heard_epoch=3, heard_offset=700)
    former = schemas.earlier("RegisterBroker")
    assert [fingerprint_of(plain)] == list(former)
    assert fingerprint_of(telling) == fingerprint_of(RegisterBroker) not in former
    assert fingerprint_of(heard) == fingerprint_of(RegisterBroker)
    altering = AlterSyncStateSet(
        ENVELOPE, "b", 1, 2, 3, (1, 2), (ReplicaEvidence(1, True, "asked"),)
    )
    with_a_loss = structs.replace(altering, lost_members=(2, 3))
    assert [fingerprint_of(altering)] == list(schemas.earlier("AlterSyncStateSet"))
    assert fingerprint_of(with_a_loss) == fingerprint_of(AlterSyncStateSet)
    electing = ElectMaster(ENVELOPE, "c", "b", -1, False, 3, 4, altering.evidence)
    waiting = structs.replace(electing, waited_ms=60_000)
    assert [fingerprint_of(electing)] == list(schemas.earlier("ElectMaster"))
    assert fingerprint_of(waiting) == fingerprint_of(ElectMaster)
    for command in (plain, telling, heard, altering, with_a_loss, electing, waiting):
        assert encode(command)[2:HEADER_BYTES].hex() == fingerprint_of(command)
        assert decode(encode(command)) == command


FORMER = ("Outcome", "RegisterBroker", "AlterSyncStateSet", "ElectMaster")


@pytest.mark.parametrize(
    ("name", "mark"), [(name, mark) for name in FORMER for mark in schemas.earlier(name)]
)
def test_a_former_schema_is_what_its_file_is_named_after(name, mark):
    text = to_parsing_canonical_form(schemas.earlier(name)[mark])
    assert crc_64_avro(text.encode()).to_bytes(8, "little").hex() == mark


def test_an_imported_set_survives_the_way():
    replicas = (ImportedReplica(1, "h:1"), ImportedReplica(2, "h:2", "code"))
    command = ImportBrokerSet(ENVELOPE, "c", "b", 3, None, 4, (1,), 5, replicas, "j:1")
    assert decode(encode(command)) == command
    change = BrokerSetImported("b", "c", 3, replicas, 1, 4, (1,), 5, 4, "j:1")
    outcome = Outcome(1, bytes(16), "c", 1, "X", "b", "", True, None, 0, changes=(change,))
    assert decode(encode(outcome)) == outcome
