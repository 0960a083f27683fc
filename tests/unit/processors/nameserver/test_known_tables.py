"""A table that was decoded before is taken for itself, and for nothing else."""

import json

import pytest

from brokers.membership.namesrv_client import RouteEntry, register_request
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.topics import TopicConfig, TopicTable
from processors.nameserver import registration
from processors.nameserver.registration import BadRegistration, KnownTables, decode_registration


def table(epoch: int, *more: str) -> TopicTable:
    topics = TopicTable(
        [TopicConfig(f"topic-{number:04d}", 4, 4) for number in range(200)]
        + [TopicConfig(name) for name in more]
    )
    topics.mastership_began(epoch, epoch)
    return topics


def request(of: TopicTable) -> RemotingCommand:
    return register_request(RouteEntry("C", "b", 0, "h:1", "h:2", 1_000, of.text()))


def test_the_same_topics_are_decoded_once_whoever_sends_them_in_whatever_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, decoded = KnownTables(), []
    whole = registration._decode_json
    monkeypatch.setattr(registration, "_decode_json", lambda body: decoded.append(1) or whole(body))
    for epoch in (1, 2, 3):
        found, plain = (
            decode_registration(request(table(epoch)), known),
            decode_registration(request(table(epoch))),
        )
        assert found == plain and found.version.state_version == epoch
    assert len(decoded) == 1 + 3
    changed = decode_registration(request(table(3, "more")), known)
    assert "more" in changed.topics and len(decoded) == 5


def test_a_rest_that_says_something_of_the_version_is_read_whole_every_time() -> None:
    known = KnownTables()
    tail = ',"dataVersion":{"counter":9,"stateVersion":9,"timestamp":9}}}'
    body = request(table(1)).body
    twice = body[:-2] + tail.encode()
    ext = request(table(1)).ext
    for _ in range(2):
        found = decode_registration(RemotingCommand.request(103, ext, twice), known)
        assert (
            found.version.state_version
            == 9
            == json.loads(twice)["topicConfigSerializeWrapper"]["dataVersion"]["stateVersion"]
        )
    assert not known._tables


def test_other_forms_and_broken_bodies_are_read_as_ever() -> None:
    known, ext = KnownTables(), request(table(1)).ext
    decode_registration(request(table(1)), known)
    body = request(table(1)).body
    for broken in (body[:-1], body.replace(b'"counter":1', b'"counter":x'), b"[]" + body):
        with pytest.raises(BadRegistration):
            decode_registration(RemotingCommand.request(103, ext, broken), known)
    spaced = json.dumps(json.loads(body)).encode()
    assert (
        decode_registration(RemotingCommand.request(103, ext, spaced), known).topics
        == decode_registration(request(table(1))).topics
    )


def test_only_the_newest_tables_are_kept() -> None:
    known = KnownTables(limit=2)
    for name in ("a", "b", "c"):
        decode_registration(request(table(1, name)), known)
    assert len(known._tables) == 2
