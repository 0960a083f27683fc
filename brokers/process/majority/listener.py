"""Who hears what a member does: a broker that has it as its log, a program that tells people.

Responsible for: the calls, each in the loop, in the order of the effects. Refuses to know: who
hears.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.majority.quorum.standing import Standing


class MemberListener:
    """Hears everything, and does nothing. What a call raises ends the member's part: it is part of
    its work.
    """

    def role_changed(self, standing: Standing) -> None:
        """What it is from here on."""

    def leader_ready(self, term: int) -> None:
        """It leads, takes appends and reads from here on."""

    def committed(self, index: int) -> None:
        """Entries up to here may be read and applied."""

    def reported(self, kind: str, fields: Mapping[str, object]) -> None:
        """A fact for people."""

    def ticked(self) -> None:
        """Time has passed, and the member knows it: some 10 ms."""

    def happened(self, kind: str, fields: Mapping[str, object]) -> None:
        """A broker event without its header (`brokers/majority/quorum/history.py`): it was carried
        out, and is durable where it says that something was promised.
        """

    def left(self, reason: str) -> None:
        """It promises nothing any more, and says so to all who ask."""
