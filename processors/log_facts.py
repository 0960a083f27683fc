"""What one controller remembers of the log beside the state.

Responsible for: the newest end it was told, and its own digest at recent offsets, so that a command
whose issuer had another state at the same offset is noticed (design D7).
Refuses to know: what the commands say.
"""

from __future__ import annotations

from processors.fold import Applied

DIGESTS_KEPT = 8_192
"""A command is applied at most this many offsets behind the state its issuer had; older ones are not compared."""


class LogFacts:
    """Digests by offset, bounded; the newest end offset seen."""

    def __init__(self) -> None:
        self.end_offset = 0
        self._digests: dict[int, bytes] = {}

    def saw_end(self, end_offset: int | None) -> None:
        if end_offset is not None:
            self.end_offset = max(self.end_offset, end_offset)

    def remember(self, offset: int, digest: bytes) -> None:
        self._digests[offset] = digest
        while len(self._digests) > DIGESTS_KEPT:
            del self._digests[next(iter(self._digests))]

    def divergence(self, applied: Applied, digest_after: bytes) -> str | None:
        """Why this controller must stop, or None; the digest after the record is remembered."""
        self.remember(applied.offset, digest_after)
        self.saw_end(applied.offset + 1)
        if applied.record is None:
            return None
        envelope = applied.record.envelope
        if not envelope.applied_digest or envelope.applied_offset >= applied.offset:
            return None
        own = self._digests.get(envelope.applied_offset)
        if own is None or own == envelope.applied_digest:
            return None
        return (
            f"at offset {envelope.applied_offset} the digest here is {own.hex()}, but {envelope.issuer} had "
            f"{envelope.applied_digest.hex()} (told by the command at offset {applied.offset}): "
            "one of the two folded another history; compare both with `regent verify` before starting again"
        )
