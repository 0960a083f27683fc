"""Reading the ext fields of a request, all of which travel as text (PROTOCOL
4).

Responsible for: required and optional fields, numbers within 64 bits, one clear error for the rest.
Refuses to know: which request has which fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer
from brokers.remoting.java_numbers import whole_number

FORWARDED_FOR = "regentForwardedFor"
FOLLOWS_EPOCH = "regentFollowsEpoch"
"""For whom a controller or a broker passes a request on: the address that it came from."""
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
I32_MAX = 2**31 - 1


class BadRequest(Exception):
    """A request that cannot be read; the text goes back as the remark of code 1 (or of `code`)."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class BadField(BadRequest):
    """A field is missing or not what it must be; answered with code 1 and this text, as the Java
    decoder does.
    """


def text(ext: Mapping[str, str], key: str) -> str:
    """A required text field."""
    value = ext.get(key)
    if value is None:
        raise BadField(f"the custom field <{key}> is null")
    return value


def number(ext: Mapping[str, str], key: str, default: int | None = None) -> int:
    """A whole number of at most 64 bits; required when there is no default."""
    value = ext.get(key)
    if value is None or value == "":
        if default is None:
            raise BadField(f"the custom field <{key}> is null")
        return default
    result = whole_number(value)
    if result is None:
        raise BadField(f"the custom field <{key}> is no number of 64 bits")
    return result


def number_or_none(ext: Mapping[str, str], key: str) -> int | None:
    """A whole number of at most 64 bits; None when the field is absent or says something else."""
    return whole_number(ext.get(key, ""))


def flag(ext: Mapping[str, str], key: str, default: bool = False) -> bool:
    """A boolean field; anything but `true` is false, as in Java."""
    value = ext.get(key)
    return default if value is None else value.lower() == "true"


def reading_fields(
    method: Callable[[RemotingCommand], Answer],
) -> Callable[[object, RemotingCommand], Answer]:
    """The handler that answers with `method`, and what it cannot read with code 1."""

    def handle(_connection: object, request: RemotingCommand) -> Answer:
        try:
            return method(request)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))

    return handle


NAME_CHARS_MAX = 255


class Fields:
    """The header fields of one request."""

    def __init__(self, ext: Mapping[str, str]) -> None:
        self._ext = ext

    def text(self, name: str, default: str | None = None) -> str:
        value = self._ext.get(name)
        if not value and (value is None or default is None):
            if default is None:
                raise BadField(f"the field {name} is missing")
            return default
        if len(value) > NAME_CHARS_MAX:
            raise BadField(f"the field {name} is longer than {NAME_CHARS_MAX} characters")
        return value

    def optional(self, name: str) -> str | None:
        value = self._ext.get(name)
        return None if value is None or value == "" else self.text(name)

    def number(self, name: str, default: int | None = None, bits: int = 64) -> int:
        value = self._ext.get(name)
        if not value:
            if default is None:
                raise BadField(f"the field {name} is missing")
            return default
        number = whole_number(value, bits)
        if number is None:
            raise BadField(f"the field {name} is no number of {bits} bits: {value[:40]!r}")
        return number

    def number_or(self, name: str, default: int, bits: int = 64) -> int:
        """As Java takes a field that it cannot read: as if it were absent."""
        number = whole_number(self._ext.get(name, ""), bits)
        return default if number is None else number

    def optional_number(self, name: str) -> int | None:
        return None if self._ext.get(name) in (None, "") else self.number(name)

    def flag(self, name: str) -> bool:
        return self._ext.get(name, "").lower() == "true"

    def optional_flag(self, name: str) -> bool | None:
        return None if self._ext.get(name) in (None, "") else self.flag(name)
