"""The header of a frame: bytes to a command and back, in JSON and in RocketMQ's binary form.

Responsible for: PROTOCOL 1.2 and 1.3; every bad header ends in FrameError.
Refuses to know: where a header begins and ends, sockets, what a command means.
"""

from __future__ import annotations

import json
import struct
from json.encoder import encode_basestring_ascii as _quote
from typing import Annotated

import msgspec

from brokers.remoting.command import SERIALIZATION_JSON, SERIALIZATION_ROCKETMQ, RemotingCommand

LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
_ORDINALS = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}

_LENGTH = struct.Struct(">i")
_FIXED = struct.Struct(">hbhiii")
_KEY_LENGTH = struct.Struct(">h")
_I32_MIN, _I32_MAX = -0x80000000, 0x7FFFFFFF


class FrameError(Exception):
    """The bytes are not a frame this side accepts. `reason` is one line; the connection must be
    closed.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


_decode_json = json.JSONDecoder(parse_constant=_refuse_constant).decode


_I32 = Annotated[int, msgspec.Meta(ge=_I32_MIN, le=_I32_MAX)]


class _Header(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What peers write as a rule. Anything else is for the careful reader to judge."""

    code: _I32 = 0
    opaque: _I32 = 0
    flag: _I32 = 0
    version: _I32 = 0
    language: str = "JAVA"
    remark: str | None = None
    extFields: dict[str, str] | None = None
    serializeTypeCurrentRPC: str = ""


_decode_usual = msgspec.json.Decoder(_Header).decode


def encode_header(command: RemotingCommand, opaque: int, flag: int) -> bytes:
    """In the command's own form, with another opaque and flag. ValueError when it does not fit the
    format, TypeError when ext holds anything but strings.
    """
    if command.serialization == SERIALIZATION_ROCKETMQ:
        return _binary_header(command, opaque, flag)
    return _json_header(command, opaque, flag)


def _json_header(command: RemotingCommand, opaque: int, flag: int) -> bytes:
    # Written by hand: this is the hot path of every process, and the keys are fixed.
    ext = ""
    if command.ext:
        pairs = ",".join([f"{_quote(key)}:{_quote(value)}" for key, value in command.ext.items()])
        ext = f',"extFields":{{{pairs}}}'
    remark = "" if command.remark is None else f',"remark":{_quote(command.remark)}'
    return (
        f'{{"code":{command.code:d}{ext},"flag":{flag:d},"language":{_quote(command.language)},"opaque":{opaque:d}{remark},"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    ).encode("ascii")


def _binary_header(command: RemotingCommand, opaque: int, flag: int) -> bytes:
    remark = (command.remark or "").encode()
    entries = bytearray()
    try:
        for key, value in command.ext.items():
            key_bytes, value_bytes = key.encode(), value.encode()
            entries += (
                _KEY_LENGTH.pack(len(key_bytes))
                + key_bytes
                + _LENGTH.pack(len(value_bytes))
                + value_bytes
            )
        fixed = _FIXED.pack(
            command.code,
            _ORDINALS.get(command.language, 7),
            command.version,
            opaque,
            flag,
            len(remark),
        )
    except struct.error as error:
        raise ValueError(f"code {command.code} does not fit the binary header: {error}") from None
    return b"".join((fixed, remark, _LENGTH.pack(len(entries)), entries))


def decode_header(serialization: int, header: bytes, body: bytes) -> RemotingCommand:
    """The command of a frame with this header and body. FrameError when the header is none."""
    if serialization == SERIALIZATION_JSON:
        return _decode_json_header(header, body)
    if serialization == SERIALIZATION_ROCKETMQ:
        return _decode_binary_header(header, body)
    raise FrameError(f"header serialisation {serialization} is unknown")


def _decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    """The compiled reader where it takes the header, at a sixth of the price; else, and for every
    refusal, the careful one.
    """
    try:
        read = _decode_usual(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_json_carefully(header, body)
    language, ext = read.language, read.extFields
    if language not in _ORDINALS:
        language = "OTHER"
    return RemotingCommand(
        read.code,
        read.opaque,
        read.flag,
        language,
        read.version,
        read.remark,
        {} if ext is None else ext,
        body,
    )


def decode_json_carefully(header: bytes, body: bytes) -> RemotingCommand:
    """A command with this JSON header; says why when it is none. Decides about whatever is
    unusual.
    """
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
    code, opaque, flag, version = (
        get("code", 0),
        get("opaque", 0),
        get("flag", 0),
        get("version", 0),
    )
    for number in (code, opaque, flag, version):
        if type(number) is not int or not _I32_MIN <= number <= _I32_MAX:
            raise FrameError("code, opaque, flag or version is no 32-bit number")
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(ext, remark)
    language = _language(get("language"))
    return RemotingCommand(
        code, opaque, flag, language, version, remark, ext, body, SERIALIZATION_JSON
    )


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
            raise FrameError(
                f"ext of {ext_bytes} bytes in a header with {len(header) - position} left"
            )
        ext: dict[str, str] = {}
        while position < len(header):
            key, position = _text(
                header, position + 2, _KEY_LENGTH.unpack_from(header, position)[0]
            )
            ext[key], position = _text(
                header, position + 4, _LENGTH.unpack_from(header, position)[0]
            )
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"the binary header is broken: {error}") from None
    return RemotingCommand(
        code,
        opaque,
        flag,
        _language(language),
        version,
        remark or None,
        ext,
        body,
        SERIALIZATION_ROCKETMQ,
    )


def _text(header: bytes, start: int, length: int) -> tuple[str, int]:
    stop = start + length
    if length < 0 or stop > len(header):
        raise FrameError(f"a text of {length} bytes reaches beyond the binary header")
    return header[start:stop].decode(), stop
