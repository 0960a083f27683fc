"""Calls to the other members.

Responsible for: which connection a call takes, its time, that each is answered once, and that a
connection over which nothing comes any more is left. Refuses to know: what is asked, and when it is
asked again.

Two connections to each peer: votes and heartbeats never wait behind entries. A connection on which
a call found no answer in time is closed: packets that were lost may hold it up for half a minute
after the way is free again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from brokers.majority.quorum.effects import Send
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED, MajorityRequest
from brokers.majority.wire.json_fields import MessageRejected
from brokers.majority.wire.messages import Request, Response
from brokers.remoting.calls import CallTimeout, RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.limits import Limits

LIMITS = Limits(calls=4_096)
"""A peer has at most 1,000 entries under way, and a few other calls (PROTOCOL 10.5)."""

_log = logging.getLogger("regent.majority")


class Peers:
    """`heard(token, answer)`: once for each `send`; None: no answer within `call_ms`."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        call_ms: int,
        heard: Callable[[int, Response | None], None],
    ) -> None:
        self._addresses = dict(addresses)
        self._call_ms, self._heard = call_ms, heard
        self._entries = RemotingClient(connect_timeout_ms=call_ms, limits=LIMITS)
        self._words = RemotingClient(connect_timeout_ms=call_ms, limits=LIMITS)
        self._under_way: set[asyncio.Task[None]] = set()

    def send(self, effect: Send) -> None:
        """Begin the call; waits for nothing."""
        task = asyncio.ensure_future(self._call(effect))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Calls under way are answered by nobody any more."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(self._entries.close(), self._words.close())

    async def _call(self, effect: Send) -> None:
        message, address = effect.message, self._addresses[effect.peer]
        code = json_bodies.code_of(message)
        client = self._entries if code is MajorityRequest.PUSH else self._words
        request = RemotingCommand.request(code, body=_body(message, effect.binary))
        answer = None
        try:
            answer = _read(effect.peer, code, await client.call(address, request, self._call_ms))
        except CallTimeout as error:
            _log.info("%s: %s", effect.peer, error)
            client.close_connection(address, "a call was not answered in time")
        except RemotingError as error:
            _log.debug("%s: %s", effect.peer, error)
        except Exception:  # whatever it is, the member waits for one word
            _log.exception("a call to %s failed", effect.peer)
        self._heard(effect.token, answer)


def _body(message: Request, binary: bool) -> bytes:
    if binary:
        return json_bodies.encode_binary(message)  # type: ignore[arg-type]  # a push, by 10.4
    return json_bodies.encode(message)


def _read(peer: str, code: MajorityRequest, frame: RemotingCommand) -> Response | None:
    if frame.code != FRAME_ANSWERED:
        _log.info("%s refused %s with %d: %s", peer, code.name, frame.code, frame.remark)
        return None
    try:
        return json_bodies.decode_response(code, frame.body)
    except MessageRejected as error:
        _log.warning("%s answered %s with what is none: %s", peer, code.name, error)
        return None
