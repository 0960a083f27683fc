"""Where a master takes HA links, by what is known of it so far.

Responsible for: which word counts: the controller's (Regent masters tell it), the master's own, a
name server's, and RocketMQ's usual port only when nobody says anything for a while. Refuses to
know: how anybody is asked, links.

A wrong address is not merely useless: behind it may be the master of another set, whose log this
one must never be cut to.
"""

from __future__ import annotations

from enum import IntEnum


class HaAddressSource(IntEnum):
    """Sources of an address; a better one is not overruled by a worse one."""

    GUESS = 0
    NAME_SERVER = 1
    MASTER = 2
    CONTROLLER = 3


class HaAddress:
    """`guess` counts from `guess_at_ms` on."""

    def __init__(self, told: str | None, guess: str | None = None, guess_at_ms: int = 0) -> None:
        self._address = told
        self._source = HaAddressSource.GUESS if told is None else HaAddressSource.CONTROLLER
        self._guess, self._guess_at_ms = guess, guess_at_ms

    @property
    def is_certain(self) -> bool:
        """Nobody else need be asked."""
        return self._source is HaAddressSource.CONTROLLER

    def at(self, now_ms: int) -> str | None:
        """The address to connect to now, None while a better source may still answer."""
        if self._address is not None:
            return self._address
        return self._guess if now_ms >= self._guess_at_ms else None

    def tell(self, address: str, source: HaAddressSource) -> bool:
        """Take over what somebody says; True when it is news."""
        if source < self._source:
            return False
        is_news = address != self._address
        self._address, self._source = address, source
        return is_news

    def guess_again(self, guess: str | None, guess_at_ms: int) -> None:
        """The master has another address: drop what was known of the old one."""
        self._address, self._source = None, HaAddressSource.GUESS
        self._guess, self._guess_at_ms = guess, guess_at_ms
