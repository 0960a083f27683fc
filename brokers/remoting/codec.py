"""Frames: bytes to commands and back, in both header serialisations.

Responsible for: the layout of broker-wire-and-storage.md 1.1 to 1.3 and its limits; every bad input ends in FrameError.
Refuses to know: sockets, codes, what a command means.
"""

from __future__ import annotations

import json
import struct
from json.encoder import encode_basestring_ascii as _quote

from brokers.remoting.command import SERIALIZATION_JSON, SERIALIZATION_ROCKETMQ, RemotingCommand

# Counted with the length word, as both Java sides do (1.1).
FRAME_BYTES_MAX = 16_777_216
# A send header with the largest legal properties stays under 100 KiB; JSON costs far more memory than its text.
HEADER_BYTES_MAX = 1_048_576
TLS_HANDSHAKE_BYTE = 0x16

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
_ORDINALS = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}

_HEAD = struct.Struct(">iI")
_LENGTH = struct.Struct(">i")
_FIXED = struct.Struct(">hbhiii")
_KEY_LENGTH = struct.Struct(">h")
_I32_MIN, _I32_MAX = -0x80000000, 0x7FFFFFFF


class FrameError(Exception):
    """The bytes are not a frame this side accepts. `reason` is one line; the connection must be closed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TlsRefused(FrameError):
    """The peer opened with a TLS handshake on a plain port."""


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


_decode_json = json.JSONDecoder(parse_constant=_refuse_constant).decode


def encode(command: RemotingCommand, *, opaque: int | None = None, flag: int | None = None) -> bytes:
    """The whole frame. `opaque` and `flag` stand in for the command's own, so that a request may be shared.

    Raises ValueError when the command does not fit the format, TypeError when ext holds anything but strings.
    """
    opaque = command.opaque if opaque is None else opaque
    flag = command.flag if flag is None else flag
    if command.serialization == SERIALIZATION_ROCKETMQ:
        header = _binary_header(command, opaque, flag)
    else:
        header = _json_header(command, opaque, flag)
    total = 4 + len(header) + len(command.body)
    if len(header) > HEADER_BYTES_MAX or total + 4 > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {total + 4} bytes, header {len(header)}, is larger than the protocol allows")
    return b"".join((_HEAD.pack(total, command.serialization << 24 | len(header)), header, command.body))


def _json_header(command: RemotingCommand, opaque: int, flag: int) -> bytes:
    # Written by hand: this is the hot path of every process, and the keys are fixed.
    ext = ""
    if command.ext:
        pairs = ",".join([f"{_quote(key)}:{_quote(value)}" for key, value in command.ext.items()])
        ext = f',"extFields":{{{pairs}}}'
    remark = "" if command.remark is None else f',"remark":{_quote(command.remark)}'
    return (
        f'{{"code":{command.code:d}{ext},"flag":{flag:d},"language":{_quote(command.language)},'
        f'"opaque":{opaque:d}{remark},"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    ).encode("ascii")


def _binary_header(command: RemotingCommand, opaque: int, flag: int) -> bytes:
    remark = (command.remark or "").encode()
    entries = bytearray()
    try:
        for key, value in command.ext.items():
            key_bytes, value_bytes = key.encode(), value.encode()
            entries += _KEY_LENGTH.pack(len(key_bytes)) + key_bytes + _LENGTH.pack(len(value_bytes)) + value_bytes
        fixed = _FIXED.pack(
            command.code, _ORDINALS.get(command.language, 7), command.version, opaque, flag, len(remark)
        )
    except struct.error as error:
        raise ValueError(f"code {command.code} does not fit the binary header: {error}") from None
    return b"".join((fixed, remark, _LENGTH.pack(len(entries)), entries))


class FrameDecoder:
    """Cuts a byte stream into commands. Keeps at most one unfinished frame, and only the bytes that arrived."""

    __slots__ = ("_frame_bytes_max", "_needed", "_pending", "_started", "failure")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        self._needed = 0
        self._started = False
        self.failure: FrameError | None = None

    @property
    def partial_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._pending)

    def feed(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Commands completed by `data`.

        Raises FrameError on a bad frame; when good frames came before it in `data`, these are returned,
        `failure` is set, and the next call raises.
        """
        if self.failure is not None:
            raise self.failure
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        elif type(data) is not bytes:
            data = bytes(data)
        commands: list[RemotingCommand] = []
        try:
            self._cut(data, commands)
        except FrameError as error:
            self.failure = error
            if not commands:
                raise
        return commands

    def _cut(self, data: bytes, commands: list[RemotingCommand]) -> None:
        position, end = 0, len(data)
        if not self._started and end:
            self._started = True
            if data[0] == TLS_HANDSHAKE_BYTE:
                raise TlsRefused("TLS is not served on this port")
        while end - position >= 8:
            total, word = _HEAD.unpack_from(data, position)
            header_bytes = word & 0xFFFFFF
            self._check_lengths(total, header_bytes)
            stop = position + 4 + total
            if stop > end:
                self._needed = stop - position
                break
            body_start = position + 8 + header_bytes
            commands.append(_decode(word >> 24, data[position + 8 : body_start], data[body_start:stop]))
            position = stop
        else:
            self._needed = 4
            if end - position >= 4:
                self._needed = 8
                self._check_lengths(_LENGTH.unpack_from(data, position)[0], 0)
        if position < end:
            self._pending += data[position:] if position else data

    def _check_lengths(self, total: int, header_bytes: int) -> None:
        if not 4 <= total <= self._frame_bytes_max - 4:
            raise FrameError(f"a frame of {total} bytes is announced, allowed are 4 to {self._frame_bytes_max - 4}")
        if header_bytes > HEADER_BYTES_MAX or header_bytes > total - 4:
            raise FrameError(f"a header of {header_bytes} bytes is announced in a frame of {total}")


def _decode(serialization: int, header: bytes, body: bytes) -> RemotingCommand:
    if serialization == SERIALIZATION_JSON:
        return _decode_json_header(header, body)
    if serialization == SERIALIZATION_ROCKETMQ:
        return _decode_binary_header(header, body)
    raise FrameError(f"header serialisation {serialization} is unknown")


def _decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        text = header.decode()
        fields = _decode_json(text)
    except RecursionError:
        raise FrameError("the header is nested too deeply") from None
    except ValueError as error:
        raise FrameError(f"the header is no JSON: {error}") from None
    if type(fields) is not dict:
        raise FrameError("the header is no JSON object")
    get = fields.get
    ext = _ext(get("extFields"))
    remark = get("remark")
    if remark is not None and type(remark) is not str:
        raise FrameError("remark is no text")
    code, opaque, flag, version = get("code", 0), get("opaque", 0), get("flag", 0), get("version", 0)
    for number in (code, opaque, flag, version):
        if type(number) is not int or not _I32_MIN <= number <= _I32_MAX:
            raise FrameError("code, opaque, flag or version is no 32-bit number")
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(ext, remark)
    language = _language(get("language"))
    return RemotingCommand(code, opaque, flag, language, version, remark, ext, body, SERIALIZATION_JSON)


def _ext(fields: object) -> dict[str, str]:
    if fields is None:
        return {}
    if type(fields) is not dict:
        raise FrameError("extFields is no object")
    for value in fields.values():
        if type(value) is not str:
            return _as_strings(fields)
    return fields


def _as_strings(ext: dict[str, object]) -> dict[str, str]:
    # Java peers accept numbers and booleans here and read them as text (1.2); null means absent.
    strings: dict[str, str] = {}
    for key, value in ext.items():
        if value is True or value is False:
            strings[key] = "true" if value else "false"
        elif isinstance(value, (str, int, float)):
            strings[key] = str(value)
        elif value is not None:
            raise FrameError(f"extFields holds a structure under {key[:64]!r}")
    return strings


def _refuse_lone_surrogates(ext: dict[str, str], remark: str | None) -> None:
    # Half a surrogate pair is no text: it would fail later, wherever somebody encodes it.
    try:
        "".join((*ext.keys(), *ext.values(), remark or "")).encode()
    except UnicodeEncodeError:
        raise FrameError("the header holds half a surrogate pair") from None


def _language(value: object) -> str:
    if type(value) is str:
        return value if value in _ORDINALS else "OTHER"
    if value is None:
        return "JAVA"
    if type(value) is int and 0 <= value < len(LANGUAGES):
        return LANGUAGES[value]
    return "OTHER"


def _decode_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header, 0)
        remark, position = _text(header, _FIXED.size, remark_bytes)
        (ext_bytes,) = _LENGTH.unpack_from(header, position)
        position += 4
        if ext_bytes != len(header) - position:
            raise FrameError(f"ext of {ext_bytes} bytes in a header with {len(header) - position} left")
        ext: dict[str, str] = {}
        while position < len(header):
            key, position = _text(header, position + 2, _KEY_LENGTH.unpack_from(header, position)[0])
            ext[key], position = _text(header, position + 4, _LENGTH.unpack_from(header, position)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"the binary header is broken: {error}") from None
    return RemotingCommand(
        code, opaque, flag, _language(language), version, remark or None, ext, body, SERIALIZATION_ROCKETMQ
    )


def _text(header: bytes, start: int, length: int) -> tuple[str, int]:
    stop = start + length
    if length < 0 or stop > len(header):
        raise FrameError(f"a text of {length} bytes reaches beyond the binary header")
    return header[start:stop].decode(), stop
