"""Operators' bodies to commands."""

import json

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest
from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ChangeSettings, ImportBrokerSet
from events.envelope import Envelope, ImportedReplica
from processors.wire import operator_requests
from tests.support.control_history import SECOND_FINGERPRINTS

ENVELOPE = Envelope(bytes(16), "c", 1, "c1", 0, "test", None, -1, b"")


def build(code: int, body: bytes) -> object:
    return operator_requests.COMMAND_BUILDERS[code](
        RemotingCommand.request(code, {}, body), ENVELOPE, lambda name, asker: ()
    )


def test_1009_takes_the_recorded_names_only_and_javas_spelling() -> None:
    command = build(1009, b"isProcessReadEvent=True\nlistenPort=1\nunknown=2\n")
    assert command == ChangeSettings(ENVELOPE, {"processReadEvent": "true"})


def test_19004_takes_an_object_of_texts() -> None:
    assert build(19004, b'{"settings":{"b":"2","a":" 1 "}}') == ChangeSettings(
        ENVELOPE, {"a": "1", "b": "2"}
    )


def test_19005_asks_for_the_schemas_of_the_release_that_brought_these_rules() -> None:
    assert build(19005, b'{"rules_version":3}') == ActivateRules(ENVELOPE, 3, COMMAND_FINGERPRINTS)
    assert build(19005, b'{"rules_version":2}') == ActivateRules(ENVELOPE, 2, SECOND_FINGERPRINTS)


IMPORT = {
    "cluster_name": "C",
    "broker_name": "a",
    "next_broker_id": 3,
    "master_broker_id": 1,
    "master_epoch": 4,
    "sync_state_set": [1, 2],
    "sync_state_set_epoch": 6,
    "source": "10.0.0.1:9878",
    "evidence_epoch": 5,
    "replicas": [
        {"broker_id": 1, "address": "h1:1", "register_check_code": ""},
        {"broker_id": 2, "address": "h2:1"},
    ],
}


def test_19006_holds_the_fields_of_the_command() -> None:
    command = build(19006, json.dumps(IMPORT).encode())
    assert command == ImportBrokerSet(
        ENVELOPE,
        "C",
        "a",
        3,
        1,
        4,
        (1, 2),
        6,
        (ImportedReplica(1, "h1:1", ""), ImportedReplica(2, "h2:1", "")),
        "10.0.0.1:9878",
        5,
    )
    without_master = build(
        19006,
        json.dumps(
            {key: value for key, value in IMPORT.items() if key != "master_broker_id"}
        ).encode(),
    )
    assert isinstance(without_master, ImportBrokerSet) and without_master.master_broker_id is None


@pytest.mark.parametrize(
    "broken",
    [
        {"replicas": {}},
        {"replicas": [1]},
        {"sync_state_set": "1"},
        {"sync_state_set": ["1"]},
        {"next_broker_id": 1 << 63},
        {"master_epoch": 1 << 31},
        {"broker_name": 1},
        {"source": "x" * 2_000},
        {"next_broker_id": None},
        {"master_broker_id": True},
    ],
)
def test_an_import_that_has_no_shape_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        build(19006, json.dumps(IMPORT | broken).encode())


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (19004, b""),
        (19004, b"[]"),
        (19004, b"{"),
        (19004, b"{}"),
        (19005, b'{"rules_version":true}'),
        (19005, b'{"rules_version":0}'),
        (19005, b'{"rules_version":"2"}'),
        (1009, b"a=\\uXYZW"),
    ],
)
def test_garbage_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(BadRequest):
        build(code, body)
