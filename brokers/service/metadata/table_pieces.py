"""A table of topics or groups as it is answered to slaves: whole, or in pieces to those of our own
kind (21, 201).

Responsible for: which part of the text is told, that pieces of two moments are never put together,
that a table which outgrew a frame is refused in words. Refuses to know: what the table holds.

The asker names how many bytes it has of which text. Where that is the present text, and all of it,
nothing is told.
"""

from __future__ import annotations

from hashlib import blake2b

from brokers.remoting.codec import FRAME_BYTES_MAX
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadField, number

WHOLE_BYTES_MAX = FRAME_BYTES_MAX - 65_536
PIECE_BYTES = 1_048_576
# What a slave puts together of pieces: four frames. No table of today comes near.
TEXT_BYTES_MAX = 4 * FRAME_BYTES_MAX
FROM, DIGEST, BYTES = "regentTableFrom", "regentTableDigest", "regentTableBytes"


def digest_of(text: bytes | bytearray) -> str:
    """Equal where two texts are."""
    return blake2b(text, digest_size=16).hexdigest()


def whole_table(
    request: RemotingCommand, text: bytes, ext: dict[str, str] | None = None
) -> RemotingCommand:
    """The answer that Java slaves read; code 1 and the way out where no frame holds it."""
    if len(text) > WHOLE_BYTES_MAX:
        remark = (
            f"a table of {len(text)} bytes does not fit a frame: only replicas of Regent copy it, "
            "in pieces"
        )
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
    return request.reply(ext=ext, body=text)


def table_piece(request: RemotingCommand, text: bytes) -> RemotingCommand:
    """The answer to a replica that asks for pieces: the next one of the text it has begun, else the
    first one of the present text.
    """
    try:
        start = number(request.ext, FROM)
    except BadField as error:
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    digest = digest_of(text)
    if request.ext.get(DIGEST) != digest or not 0 <= start <= len(text):
        start = 0
    ext = {FROM: str(start), DIGEST: digest, BYTES: str(len(text))}
    return request.reply(ext=ext, body=text[start : start + PIECE_BYTES])


class PiecesCopied:
    """One table that a slave copies; `here` is the text it has. Ask with `wanted`, give each answer
    to `take`.
    """

    def __init__(self, here: bytes) -> None:
        self._digest, self._text = digest_of(here), bytearray(here)

    @property
    def wanted(self) -> dict[str, str]:
        """The ext fields of the next question."""
        return {FROM: str(len(self._text)), DIGEST: self._digest}

    def take(self, answer: RemotingCommand) -> bytes | None:
        """The whole text once it is there, None before. `ValueError` when the pieces make no
        text.
        """
        # a Java master, or one of an earlier release, sends all at once
        if BYTES not in answer.ext:
            return answer.body
        try:
            start, total = number(answer.ext, FROM), number(answer.ext, BYTES)
        except BadField as error:
            raise ValueError(str(error)) from None
        if start == 0:
            self._digest = answer.ext.get(DIGEST, "")
            self._text.clear()
        if (
            start != len(self._text)
            or total > TEXT_BYTES_MAX
            or (not answer.body and start < total)
        ):
            raise ValueError(
                f"a piece from byte {start} of {total} is no continuation of {len(self._text)} "
                "bytes"
            )
        self._text += answer.body
        if len(self._text) < total:
            return None
        if digest_of(self._text) != self._digest:
            raise ValueError("the pieces are not of one text")
        return bytes(self._text)
