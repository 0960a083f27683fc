"""Reading the ext fields of a request, all of which travel as text (`broker-wire-and-storage.md`
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

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
I32_MAX = 2**31 - 1


class BadField(Exception):
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
