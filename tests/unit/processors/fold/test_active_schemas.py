"""Which bytes are commands: those of the schemas that are active in the log, and of no others."""

from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import MARKER, UnknownFingerprint, encode, fingerprint_of
from events.commands import ClaimLeadership, ClusterFormed
from processors.fold.active_schemas import ActiveSchemas
from processors.fold.refusals import Refusal
from processors.fold.state import ControllerState
from tests.support.control_history import History

HISTORY = History()
FORMED_RECORD, CLAIM_RECORD = HISTORY.records
STATE = HISTORY.folder.state


def read(data: bytes, state: ControllerState = STATE):
    return ActiveSchemas().reader(state)(data)


def test_before_the_cluster_only_its_forming_is_read():
    assert isinstance(read(FORMED_RECORD, ControllerState()), ClusterFormed)
    assert read(CLAIM_RECORD, ControllerState()) is Refusal.NOT_FORMED
    assert read(b"", ControllerState()) is Refusal.NOT_FORMED


def test_active_schemas_are_read_and_others_refused():
    assert isinstance(read(CLAIM_RECORD), ClaimLeadership)
    assert read(CLAIM_RECORD[:-1]) is Refusal.UNREADABLE
    assert read(MARKER + bytes(8) + CLAIM_RECORD) is Refusal.UNKNOWN_SCHEMA
    assert read(MARKER) is read(b"garbage of some length") is Refusal.UNREADABLE


def test_an_active_schema_without_a_command_is_unreadable_and_one_of_a_later_release_is_told():
    active = replace(STATE, fingerprints=(*STATE.fingerprints, fingerprint_of(HaLinkUp), "00" * 8))
    event = encode(HaLinkUp(BrokerEventHeader(b"e" * 16, "c", "b", 1, "i", 1, 0), 2, "inbound"))
    assert read(event, active) is read(event[:-1], active) is Refusal.UNREADABLE
    told = read(MARKER + bytes(8) + b"whatever", active)
    assert isinstance(told, UnknownFingerprint) and told.fingerprint_hex == "00" * 8


def test_it_learns_when_the_log_names_other_schemas():
    schemas = ActiveSchemas()
    assert schemas.reader(ControllerState())(CLAIM_RECORD) is Refusal.NOT_FORMED
    none = replace(STATE, fingerprints=())
    assert schemas.reader(none)(CLAIM_RECORD) is Refusal.UNKNOWN_SCHEMA
    assert isinstance(schemas.reader(STATE)(CLAIM_RECORD), ClaimLeadership)
    assert schemas.reader(none)(CLAIM_RECORD) is Refusal.UNKNOWN_SCHEMA
