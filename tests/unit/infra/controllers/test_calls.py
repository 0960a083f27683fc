from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from brokers.remoting.command import RemotingCommand
from infra.controllers.admin import ControllerAdmin
from infra.controllers.calls import Refused
from infra.problems import Problem
from tests.support import remoting_thread
from tests.support.brokers import free_port

# A silent one costs so much; the one that answers must be able to within it, on a busy machine too.
SOON_MS = 1_500
Answer = Callable[[RemotingCommand], RemotingCommand | None]


def serving(answer: Answer) -> AbstractContextManager[str]:
    return remoting_thread.serving(lambda _, request: answer(request))


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def leader(request: RemotingCommand) -> RemotingCommand:
    match request.code:
        case 1012:
            return request.reply(ext={"nextBrokerId": "4"})
        case 1011:
            return request.reply(2009, remark="broker 1 is alive")
        case 19003:
            return request.reply(body=b'{"term":7}')
    return request.reply(3, remark="request type not supported")


def test_the_next_address_is_tried_when_one_does_not_answer(nobody: str) -> None:
    with serving(leader) as address:
        assert ControllerAdmin([nobody, address]).next_broker_id("C", "a") == 4


def test_when_nobody_answers_every_address_is_named_with_its_reason(nobody: str) -> None:
    with pytest.raises(Problem) as raised:
        ControllerAdmin([nobody]).state()
    assert raised.value.what == f"no controller answers ({nobody}: Connection refused)"


def test_a_silent_controller_is_passed_over_after_the_timeout() -> None:
    with serving(lambda _: None) as silent, serving(leader) as address:
        assert ControllerAdmin([silent, address], timeout_ms=SOON_MS).state() == {"term": 7}


def test_a_repeat_after_a_timeout_carries_the_same_command_id() -> None:
    heard: list[str] = []

    def silent(request: RemotingCommand) -> None:
        heard.append(request.ext["regentCommandId"])

    def answering(request: RemotingCommand) -> RemotingCommand:
        heard.append(request.ext["regentCommandId"])
        return request.reply()

    with serving(silent) as first, serving(answering) as second:
        ControllerAdmin([first, second], timeout_ms=SOON_MS).clean("C", "a", [3])
    assert len(heard) == 2 and heard[0] == heard[1] and len(heard[0]) == 32


def test_a_follower_names_the_leader_although_nobody_else_did() -> None:
    with serving(leader) as at:

        def follower(request: RemotingCommand) -> RemotingCommand:
            return (
                request.reply(0, {"controllerLeaderAddress": at})
                if request.code == 1005
                else request.reply(2007)
            )

        with serving(follower) as address:
            assert ControllerAdmin([address]).next_broker_id("C", "a") == 4


def test_a_leader_that_comes_late_is_waited_for() -> None:
    asked: list[int] = []

    def late(request: RemotingCommand) -> RemotingCommand:
        if request.code == 1012:
            asked.append(request.code)
        return request.reply(2007) if len(asked) < 3 else leader(request)

    with serving(late) as address:
        assert ControllerAdmin([address]).next_broker_id("C", "a") == 4


def test_nobody_who_leads_is_told_with_the_way_out() -> None:
    with serving(lambda request: request.reply(2007, remark="not in leader state")) as address:
        with pytest.raises(Refused) as raised:
            ControllerAdmin([address], leader_wait_ms=0).next_broker_id("C", "a")
    assert raised.value.code == 2007 and "regent controller status" in raised.value.way_out


def test_a_refusal_keeps_code_remark_and_who_gave_it() -> None:
    with serving(leader) as address:
        with pytest.raises(Refused) as raised:
            ControllerAdmin([address]).clean("C", "a")
    assert (raised.value.code, raised.value.remark) == (2009, "broker 1 is alive")
    assert raised.value.what == f"cleaning a: broker 1 is alive (code 2009, from {address})"


def test_a_controller_that_does_not_know_the_request_is_called_old_or_java() -> None:
    with serving(leader) as address:
        with pytest.raises(Refused) as raised:
            ControllerAdmin([address]).transfer()
    assert "an older one, a Java one, or another kind of server" in raised.value.way_out


def test_what_does_not_speak_remoting_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            link, _ = server.accept()
            with link:
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                link.recv(4096)

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(Problem) as raised:
            ControllerAdmin([]).ask(f"127.0.0.1:{server.getsockname()[1]}", 1005)
        thread.join(10)
    assert "not RocketMQ remoting" in raised.value.what


def test_whoever_stays_silent_is_asked_last_from_then_on() -> None:
    heard: list[int] = []

    def silent(request: RemotingCommand) -> None:
        heard.append(request.code)

    with serving(silent) as first, serving(leader) as second:
        admin = ControllerAdmin([first, second], timeout_ms=SOON_MS)
        assert admin.state() == admin.state() == {"term": 7}
        assert len(heard) == 1 and admin.addresses == [first, second]


def test_a_long_wait_for_an_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def telling(text: str) -> AbstractContextManager[None]:
        told.append(text)
        return nullcontext()

    monkeypatch.setattr("infra.waiting.told", telling)
    with serving(leader) as address:
        ControllerAdmin([address], timeout_ms=2_000).state()
    assert f"waiting for an answer of {address}, 2 s at most" in told


@pytest.mark.parametrize(
    ("remark", "way_out"),
    [
        ("MASTER_NOT_AVAILABLE at offset 7", "start one of those in sync"),
        ("CLEAN_HAS_MASTER at offset 7", "--living"),
        ("SOMETHING_ELSE at offset 7", ""),
    ],
)
def test_a_refusal_that_operators_meet_has_a_way_out(remark: str, way_out: str) -> None:
    with (
        serving(lambda request: request.reply(2004, remark=remark)) as address,
        pytest.raises(Refused) as raised,
    ):
        ControllerAdmin([address]).elect("C", "a")
    assert way_out in raised.value.way_out and bool(way_out) == bool(raised.value.way_out)
