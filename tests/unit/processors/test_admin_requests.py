"""Operators' bodies to commands."""

import pytest

from brokers.remoting.command import RemotingCommand
from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ChangeSettings
from events.envelope import Envelope
from processors import admin_requests
from processors.gateway import BadRequest

ENVELOPE = Envelope(bytes(16), "c", 1, "c1", 0, "test", None, -1, b"")


def build(code: int, body: bytes) -> object:
    return admin_requests.COMMAND_BUILDERS[code](RemotingCommand.request(code, {}, body), ENVELOPE, lambda name, asker: ())


def test_1009_takes_the_recorded_names_only_and_javas_spelling() -> None:
    command = build(1009, b"isProcessReadEvent=True\nlistenPort=1\nunknown=2\n")
    assert command == ChangeSettings(ENVELOPE, {"processReadEvent": "true"})


def test_19004_takes_an_object_of_texts() -> None:
    assert build(19004, b'{"settings":{"b":"2","a":" 1 "}}') == ChangeSettings(ENVELOPE, {"a": "1", "b": "2"})


def test_19005_asks_for_this_releases_schemas() -> None:
    assert build(19005, b'{"rules_version":2}') == ActivateRules(ENVELOPE, 2, COMMAND_FINGERPRINTS)


@pytest.mark.parametrize(("code", "body"), [
    (19004, b""), (19004, b"[]"), (19004, b"{"), (19004, b"{}"), (19005, b'{"rules_version":true}'),
    (19005, b'{"rules_version":0}'), (19005, b'{"rules_version":"2"}'), (1009, b"a=\\uXYZW"),
])  # fmt: skip
def test_garbage_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(BadRequest):
        build(code, body)
