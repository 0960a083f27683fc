"""The answers to sends, at a price that every message can pay.

Responsible for: their content; the frame of a stored send with the same bytes as the general
encoder makes (a property test holds them equal); one write for the answers of one connection.
Refuses to know: when a send is answered, and how.
"""

from __future__ import annotations

import struct

from brokers.remoting.codec import encode
from brokers.remoting.command import FLAG_RESPONSE, RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.sending.request import answer_ext
from brokers.store.appender import PutResult

_HEAD = struct.Struct(">ii")


def general_frame(
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    unique_key: str | None,
    recall_handle: str | None = None,
) -> bytes:
    """Code 0 and the fields of a stored send, by the general encoder."""
    ext = answer_ext(msg_id, queue_id, queue_offset, unique_key, recall_handle)
    return encode(RemotingCommand(0, opaque, FLAG_RESPONSE, ext=ext))


def _template(handle: str | None) -> bytes:
    """What the general encoder writes, with places for what differs."""
    header = general_frame(77777, "MSG", 55555, 66666, "KEY", handle)[8:].replace(b"%", b"%%")
    if handle is not None:
        header = header.replace(handle.encode(), b"%b")
    for mark, place in (
        (b"MSG", b"%b"),
        (b"55555", b"%d"),
        (b"66666", b"%d"),
        (b"KEY", b"%b"),
        (b"77777", b"%d"),
    ):
        before, found, behind = (
            header.rpartition(mark) if mark == b"KEY" else header.partition(mark)
        )
        assert found, mark
        header = before + place + behind
    return header


_TEMPLATE, _WITH_HANDLE = _template(None), _template("HANDLE")


def stored_frame(
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    unique_key: str | None,
    recall_handle: str | None = None,
) -> bytes:
    """As `general_frame`. `recall_handle`: digits and letters of base64, as `encode_handle` has
    them.
    """
    if not unique_key or not (unique_key.isalnum() and unique_key.isascii()):
        return general_frame(opaque, msg_id, queue_id, queue_offset, unique_key, recall_handle)
    place = msg_id.encode(), queue_id, queue_offset, unique_key.encode()
    header = (
        _WITH_HANDLE % (*place, recall_handle.encode(), opaque)
        if recall_handle
        else _TEMPLATE % (*place, opaque)
    )
    return _HEAD.pack(4 + len(header), len(header)) + header


def answer_to(
    request: RemotingCommand,
    result: PutResult | None,
    queue_id: int,
    unique_key: str | None,
    code: int,
    remark: str | None,
    recall_handle: str | None = None,
) -> RemotingCommand:
    """0, 10 and 12 mean stored: clients read the place out of the answer."""
    ext = (
        answer_ext(result.msg_id, queue_id, result.queue_offset, unique_key, recall_handle)
        if result
        else None
    )
    return request.reply(code, ext, remark=remark)


class AnswersTogether:
    """Answers to taken sends, in the order of a round; call `go` at its end."""

    def __init__(self, code: int, remark: str | None) -> None:
        self._code, self._remark = code, remark
        self._connection: Connection | None = None
        self._frames: list[bytes] = []
        self._body_bytes = 0

    def add(
        self,
        connection: Connection,
        request: RemotingCommand,
        result: PutResult | None,
        queue_id: int,
        unique_key: str | None,
        recall_handle: str | None = None,
    ) -> None:
        """The next one."""
        if connection is not self._connection:
            self.go()
            self._connection = connection
        if result and self._code == 0 and self._remark is None:
            frame = stored_frame(
                request.opaque,
                result.msg_id,
                queue_id,
                result.queue_offset,
                unique_key,
                recall_handle,
            )
        else:
            known = result, queue_id, unique_key, self._code, self._remark, recall_handle
            frame = encode(answer_to(request, *known))
        self._frames.append(frame)
        self._body_bytes += len(request.body)

    def go(self) -> None:
        """Hand over what is collected."""
        if self._connection is not None:
            self._connection.answer_express(self._frames, self._body_bytes)
        self._connection = None
        self._frames = []
        self._body_bytes = 0
