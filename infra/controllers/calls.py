"""Calls to controllers over remoting, from a plain blocking caller.

Responsible for: trying every address that was given, the way from a standby (or a Java follower) to
the leader, and a Problem with the way out for every end that is not an answer. Refuses to know:
what is asked.

A call for the leader carries one command id at every address: a repeat after a timeout cannot act
twice (design D5). Java controllers ignore the field.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence

from brokers.remoting import codec
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra import waiting
from infra.problems import Problem
from infra.processes.ports import split_address

CALL_TIMEOUT_MS = 5_000
LEADER_WAIT_MS = 6_000
LEADER_POLL_S = 0.2
READ_BYTES = 65_536
COMMAND_ID_BYTES = 16
ALL_GOOD = (int(ResponseCode.SUCCESS),)


class Refused(Problem):
    """A controller answered, and not with success."""

    def __init__(self, what: str, answer: RemotingCommand, address: str) -> None:
        self.code = answer.code
        self.remark = answer.remark or ""
        self.address = address
        super().__init__(
            f"{what}: {self.remark or name_of(answer.code)} (code {answer.code}, from {address})",
            _way_out(answer),
        )


class NoAnswer(Exception):
    """One address did not answer; the text says why. `sent`: whether the request may have
    arrived.
    """

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


def name_of(code: int) -> str:
    """RocketMQ's name of a response code, as people write it."""
    try:
        return ResponseCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"code {code}"


WAYS_OUT = {
    "MASTER_NOT_AVAILABLE": (
        "No replica that may be master is alive: start one of those in sync, or see --unclean in "
        "'regent controller elect --help'."
    ),
    "CLEAN_HAS_MASTER": "The set has a master on record: --living cleans it all the same.",
}
"""What operators can do about the refusals that they meet."""


def _way_out(answer: RemotingCommand) -> str:
    known = WAYS_OUT.get((answer.remark or "").partition(" ")[0])
    if known:
        return known
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return (
            "Nothing of this release that is a controller listens there: an older one, a Java one, "
            "or another kind of server. Name others with --controller."
        )
    if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
        return (
            "'regent controller status' shows which controllers live, 'regent doctor' why nobody "
            "leads."
        )
    if answer.code == ResponseCode.SYSTEM_BUSY:
        return "Try again in a moment."
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return "'regent doctor' looks at Kafka, the controllers and the brokers."
    return ""


def call(
    address: str, request: RemotingCommand, timeout_ms: int = CALL_TIMEOUT_MS
) -> RemotingCommand:
    """One request to one address over a connection of its own. Raises NoAnswer."""
    with waiting.told(f"waiting for an answer of {address}, {timeout_ms / 1000:g} s at most"):
        return _call(address, request, timeout_ms)


def _call(address: str, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
    deadline = time.monotonic() + timeout_ms / 1000
    request.opaque = 1
    decoder = codec.FrameDecoder()
    sent = False
    try:
        with socket.create_connection(split_address(address), timeout_ms / 1000) as link:
            sent = True
            link.sendall(codec.encode(request))
            while (left := deadline - time.monotonic()) > 0:
                link.settimeout(left)
                data = link.recv(READ_BYTES)
                if not data:
                    raise NoAnswer("closed the connection", sent)
                for answer in decoder.feed(data):
                    if answer.is_response and answer.opaque == request.opaque:
                        return answer
    except TimeoutError:
        pass
    except OSError as error:
        raise NoAnswer(error.strerror or str(error), sent) from None
    except codec.FrameError as error:
        raise NoAnswer(f"answers something that is not RocketMQ remoting ({error})", sent) from None
    raise NoAnswer(f"no answer within {timeout_ms / 1000:g} s", sent)


class ControllerCalls:
    """The controllers at `addresses`."""

    def __init__(
        self,
        addresses: Sequence[str],
        timeout_ms: int = CALL_TIMEOUT_MS,
        leader_wait_ms: int = LEADER_WAIT_MS,
    ) -> None:
        self.addresses = list(addresses)
        self._order = list(addresses)
        """The same, with those at the end that were asked in vain."""
        self._timeout_ms = timeout_ms
        self._leader_wait_ms = leader_wait_ms

    def ask(
        self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """One request to this address and no other. Problem when it does not answer."""
        try:
            return call(
                address, RemotingCommand.request(code, dict(ext or {}), body), self._timeout_ms
            )
        except NoAnswer as error:
            raise Problem(
                f"controller {address}: {error}", "Is it running, and is the address right?"
            ) from None

    def ask_any(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[str, RemotingCommand]:
        """The first answer of any controller, with its address. Problem when none answers."""
        failed = []
        for address in list(self._order):
            try:
                return address, call(
                    address, RemotingCommand.request(code, dict(ext or {}), body), self._timeout_ms
                )
            except NoAnswer as error:
                failed.append(self._in_vain(address, error))
        raise self._nobody(failed)

    def ask_leader(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        good: Sequence[int] = ALL_GOOD,
        what: str,
    ) -> RemotingCommand:
        """The leader's answer, through any controller; waits a while for a leader. Refused when it
        is not in `good`.
        """
        ext = {"regentCommandId": os.urandom(COMMAND_ID_BYTES).hex(), **(ext or {})}
        deadline = time.monotonic() + self._leader_wait_ms / 1000
        with waiting.told(
            f"no answer of a leader yet, waiting {self._leader_wait_ms / 1000:g} s or a little more"
        ):
            return self._leaders_answer(code, ext, body, good, what, deadline)

    def _leaders_answer(
        self,
        code: int,
        ext: dict[str, str],
        body: bytes,
        good: Sequence[int],
        what: str,
        deadline: float,
    ) -> RemotingCommand:
        while True:
            address, answer, failed = self._round(code, ext, body)
            if answer is None:
                raise self._nobody(failed)
            if answer.code in good:
                return answer
            if answer.code != ResponseCode.CONTROLLER_NOT_LEADER or time.monotonic() > deadline:
                raise Refused(what, answer, address)
            time.sleep(LEADER_POLL_S)

    def _round(
        self, code: int, ext: dict[str, str], body: bytes
    ) -> tuple[str, RemotingCommand | None, list[str]]:
        """The best answer of one round over all addresses, the leader that followers name
        included.
        """
        failed: list[str] = []
        standby: tuple[str, RemotingCommand] | None = None
        left, asked = list(self._order), set()
        while left:
            address = left.pop(0)
            if address in asked:
                continue
            asked.add(address)
            try:
                answer = call(
                    address, RemotingCommand.request(code, dict(ext), body), self._timeout_ms
                )
            except NoAnswer as error:
                failed.append(self._in_vain(address, error))
                continue
            if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                return address, answer, failed
            standby = address, answer
            left[:0] = self._leader_at(address)
        return (*standby, failed) if standby else ("", None, failed)

    def _leader_at(self, address: str) -> list[str]:
        try:
            found = call(
                address,
                RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO),
                self._timeout_ms,
            )
        except NoAnswer:
            return []
        leader = found.ext.get("controllerLeaderAddress")
        return [leader] if leader else []

    def _in_vain(self, address: str, why: NoAnswer) -> str:
        """A silent controller is asked last from now on, so that the wait is paid once."""
        if why.sent and address in self._order:
            self._order.remove(address)
            self._order.append(address)
        return f"{address}: {why}"

    def _nobody(self, failed: Sequence[str]) -> Problem:
        return Problem(
            f"no controller answers ({'; '.join(failed)})",
            "Start them, or name others with --controller HOST:PORT;HOST:PORT.",
        )
