"""What comes to a member's port: the form of each answer, and any bytes at all."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.majority.entry import Entry, Place
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED, Code, MajorityRequest, PushType
from brokers.majority.wire.json_fields import MessageRejected
from brokers.majority.wire.messages import (
    AppendRequest,
    GetRequest,
    HeartBeatRequest,
    MetadataRequest,
    PushRequest,
    Request,
    TransferRequest,
    VoteRequest,
)
from brokers.process.majority.member import MemberProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.examples import examples
from tests.support.majority_group import GROUP, addresses, member_config, running_member

HEAD = {"group": GROUP, "remote_id": "n0", "local_id": "n1", "leader_id": "n1", "term": 2}
ENTRIES = (Entry(0, 1, 0, b"abc"), Entry(1, 2, 51, b""))
SAMPLES: tuple[Request, ...] = (
    MetadataRequest(**HEAD),  # type: ignore[arg-type]
    AppendRequest(body=b"body", **HEAD),  # type: ignore[arg-type]
    GetRequest(begin_index=0, **HEAD),  # type: ignore[arg-type]
    VoteRequest(end=Place(1, 4), **HEAD),  # type: ignore[arg-type]
    HeartBeatRequest(**HEAD),  # type: ignore[arg-type]
    PushRequest(type=PushType.APPEND, entries=ENTRIES, previous=Place(), **HEAD),  # type: ignore[arg-type]
    PushRequest(type=PushType.COMPARE, entries=ENTRIES[:1], **HEAD),  # type: ignore[arg-type]
    PushRequest(type=PushType.TRUNCATE, entries=ENTRIES[:1], **HEAD),  # type: ignore[arg-type]
    PushRequest(type=PushType.COMMIT, commit_index=1, **HEAD),  # type: ignore[arg-type]
    TransferRequest(transfer_id="n0", transferee_id="n1", **HEAD),  # type: ignore[arg-type]
)


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[MemberProcess]:
    """One of three, alone."""
    members = addresses(3)
    made = await running_member(member_config(tmp_path, members, "n0"))
    yield made
    await made.stop()


def frame_of(request: Request) -> RemotingCommand:
    return RemotingCommand.request(json_bodies.code_of(request), body=json_bodies.encode(request))


def mutated(draw: random.Random, body: bytes) -> bytes:
    """Flipped, cut, doubled, spliced; or a number made another."""
    data = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(5)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at : at + draw.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = data[at : at + draw.randrange(1, 40)]
        elif kind == 3:
            data[at:at] = draw.randbytes(draw.randrange(1, 8))
        else:
            digits = [where for where, byte in enumerate(data) if chr(byte).isdigit()]
            if digits:
                data[draw.choice(digits)] = ord(draw.choice("0123456789-"))
    return bytes(data)


async def answered(
    member: MemberProcess, client: RemotingClient, frame: RemotingCommand
) -> RemotingCommand:
    return await client.call(member.config.bound, frame, 60_000)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: type(one).__name__)
async def test_each_request_is_answered_in_the_form_of_its_kind(
    member: MemberProcess, client: RemotingClient, sample: Request
) -> None:
    answer = await answered(member, client, frame_of(sample))
    assert answer.code == FRAME_ANSWERED
    code = json_bodies.code_of(sample)
    assert json_bodies.decode_response(code, answer.body).group == GROUP


@pytest.mark.parametrize("code", MajorityRequest)
async def test_what_is_no_request_of_its_kind_is_refused(
    member: MemberProcess, client: RemotingClient, code: MajorityRequest
) -> None:
    for body in (b"", b"[]", b"\x01", b"{", b'{"term":-2}', b"\xff" * 40):
        answer = await answered(member, client, RemotingCommand.request(code, body=body))
        said = json_bodies.decode_response(code, answer.body)
        assert (answer.code, said.code) == (FRAME_ANSWERED, Code.UNEXPECTED_ARGUMENT)


async def test_a_code_that_no_group_has_is_not_served(
    member: MemberProcess, client: RemotingClient
) -> None:
    assert (await answered(member, client, RemotingCommand.request(51_003))).code == 3


async def test_another_members_or_groups_request_is_refused(
    member: MemberProcess, client: RemotingClient
) -> None:
    for head, code in (
        ({"group": "h", "remote_id": "n0"}, Code.UNKNOWN_GROUP),
        ({"group": GROUP, "remote_id": "n1"}, Code.UNKNOWN_MEMBER),
    ):
        for request in (AppendRequest(**head), GetRequest(**head), HeartBeatRequest(**head)):  # type: ignore[arg-type]
            answer = await answered(member, client, frame_of(request))
            said = json_bodies.decode_response(json_bodies.code_of(request), answer.body)
            assert said.code == code


async def test_an_entry_that_fits_no_file_is_refused_before_it_is_written(
    member: MemberProcess, client: RemotingClient
) -> None:
    body = bytes(member.config.data_file_bytes - 48 - 8 + 1)
    request = AppendRequest(group=GROUP, remote_id="n0", body=body)
    answer = await answered(member, client, frame_of(request))
    said = json_bodies.decode_response(MajorityRequest.APPEND, answer.body)
    assert said.code == Code.UNEXPECTED_ARGUMENT
    fits = AppendRequest(group=GROUP, remote_id="n0", body=body[:-1])
    answer = await answered(member, client, frame_of(fits))
    said = json_bodies.decode_response(MajorityRequest.APPEND, answer.body)
    assert said.code == Code.NOT_LEADER, "it is alone"


async def test_any_bytes_are_answered_and_change_no_promise(
    member: MemberProcess, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Bodies that were requests once, in any order; a member that is so lied to may follow and cut,
    and even leave, but neither fails nor falls silent.
    """
    draw, frames = random.Random(21), []
    for number in range(examples(300)):
        sample = SAMPLES[number % len(SAMPLES)]
        binary = isinstance(sample, PushRequest) and sample.entries and draw.random() < 0.5
        body = json_bodies.encode_binary(sample) if binary else json_bodies.encode(sample)  # type: ignore[arg-type]
        frames.append(
            RemotingCommand.request(json_bodies.code_of(sample), body=mutated(draw, body))
        )
    with caplog.at_level(logging.WARNING, "regent"):
        answers = await asyncio.gather(*(answered(member, client, one) for one in frames))
    assert {answer.code for answer in answers} == {FRAME_ANSWERED}
    for frame, answer in zip(frames, answers, strict=True):
        try:
            json_bodies.decode_response(frame.code, answer.body)
        except MessageRejected as error:
            raise AssertionError(f"{frame.body!r} got {answer.body!r}") from error
    assert not [one for one in caplog.records if one.exc_info]
    log = member.opened.folder.log
    assert log.committed_index <= log.last.index
    assert (await answered(member, client, frame_of(SAMPLES[0]))).code == FRAME_ANSWERED
