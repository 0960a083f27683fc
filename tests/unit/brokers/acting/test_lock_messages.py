"""41 and 42 between members of a set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.acting.lock_messages import (
    QUEUES_PER_LOCK_MAX,
    LockRequest,
    lock_answer,
    read_lock_answer,
    read_lock_request,
)
from brokers.remoting.codec import FrameDecoder
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand

GOLDEN = Path(__file__).parents[3] / "golden/wire/client-broker.jsonl"
REQUEST = LockRequest("G", "c@1", (("broker-a", "T", 3),), True, "a-1")


def test_a_request_is_these_bytes() -> None:
    assert REQUEST.body() == (
        b'{"clientId":"c@1","consumerGroup":"G","mqSet":[{"brokerName":"broker-a","queueId":3,'
        b'"topic":"T"}],"onlyThisBroker":true}'
    )
    assert read_lock_request(REQUEST.command(RequestCode.LOCK_BATCH_MQ)) == REQUEST


@pytest.mark.parametrize("code", [41, 42])
def test_recorded_requests_of_java_clients_are_read(code: int) -> None:
    lines = map(json.loads, GOLDEN.read_text().splitlines())
    recorded = next(one for one in lines if one["code"] == code)
    (request,) = FrameDecoder().feed(bytes.fromhex(recorded["raw_hex"]))
    read = read_lock_request(request)
    assert (read.client_id, read.group) == ("192.0.2.2@orderly", "LifeOrderly")
    assert read.queues[0] == ("g", "Life", 0) and not read.only_this_broker


def test_without_the_field_an_old_client_asks_for_the_whole_set() -> None:
    body = b'{"clientId":"c","consumerGroup":"G"}'
    request = read_lock_request(RemotingCommand(41, body=body))
    assert request == LockRequest("G", "c", ())


def test_an_answer_comes_back_as_it_was() -> None:
    answer = RemotingCommand(0, ext={"regentLockRound": "a-1"}, body=lock_answer(REQUEST.queues))
    assert read_lock_answer(answer) == (REQUEST.queues, "a-1")
    with pytest.raises(ValueError, match="busy"):
        read_lock_answer(RemotingCommand(2, remark="busy"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"clientId":"c"}',
        b'{"clientId":"c","consumerGroup":"G","mqSet":{}}',
        b'{"clientId":"c","consumerGroup":"G","mqSet":[1]}',
        b'{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"b","topic":"T"}]}',
        b'{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"b","queueId":-1,"topic":"T"}]}',
        b'{"clientId":"","consumerGroup":"G","mqSet":[]}',
        b'{"clientId":"c","consumerGroup":"G","mqSet":[%s]}'
        % b",".join([b"{}"] * (QUEUES_PER_LOCK_MAX + 1)),
    ],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_lock_request(RemotingCommand(41, body=body))


@given(st.binary(max_size=300), st.text(max_size=300))
def test_nonsense_ends_in_one_error(body: bytes, round_id: str) -> None:
    command = RemotingCommand(0, ext={"regentLockRound": round_id}, body=body)
    for read in (read_lock_request, read_lock_answer):
        try:
            read(command)
        except ValueError:
            pass
