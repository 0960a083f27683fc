"""The header fields of a request to a controller, with the conversions Java applies (controller.md
1).

Responsible for: texts, numbers and flags within their bounds, one clear error for the rest.
Refuses to know: which request has which fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.java_numbers import whole_number

NAME_CHARS_MAX = 255


class BadRequest(Exception):
    """A request that cannot be read; the text goes back as the remark of code 1 (or of `code`)."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Fields:
    """The header fields of one request."""

    def __init__(self, ext: Mapping[str, str]) -> None:
        self._ext = ext

    def text(self, name: str, default: str | None = None) -> str:
        value = self._ext.get(name)
        if not value and (value is None or default is None):
            if default is None:
                raise BadRequest(f"the field {name} is missing")
            return default
        if len(value) > NAME_CHARS_MAX:
            raise BadRequest(f"the field {name} is longer than {NAME_CHARS_MAX} characters")
        return value

    def optional(self, name: str) -> str | None:
        value = self._ext.get(name)
        return None if value is None or value == "" else self.text(name)

    def number(self, name: str, default: int | None = None, bits: int = 64) -> int:
        value = self._ext.get(name)
        if not value:
            if default is None:
                raise BadRequest(f"the field {name} is missing")
            return default
        number = whole_number(value, bits)
        if number is None:
            raise BadRequest(f"the field {name} is no number of {bits} bits: {value[:40]!r}")
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
