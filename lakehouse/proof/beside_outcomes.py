"""Folding commands beside the outcomes that were published for them, record by record.

Responsible for saying how far the two agree. Needs 32 bytes a command, not the outcomes themselves.
Refuses to know where either comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from events.codec import CodecError, decode
from events.envelope import DIGEST_BYTES
from events.outcomes import Outcome
from processors.fold.folder import Folder, ReleaseTooOld


@dataclass(frozen=True, slots=True)
class Proof:
    """`proven` is the last offset whose folded digest was published too: digests are chained, so it
    proves all below.
    """

    commands: int
    digest: str
    proven: int
    problem: str | None


class PublishedDigests:
    """The digests that were published for each command, by its offset: of the history, and, of
    some, of the state.
    """

    def __init__(self) -> None:
        self._digests = bytearray()
        self._known = bytearray()
        self._states: dict[int, bytes] = {}
        self.problem: str | None = None

    def add(self, value: bytes | None) -> None:
        """One record of the outcomes topic; what is no outcome says nothing."""
        try:
            outcome = decode(value or b"")
        except CodecError:
            return
        if not isinstance(outcome, Outcome) or outcome.command_offset < 0:
            return
        at = outcome.command_offset
        missing = at + 1 - len(self._known)
        if missing > 0:
            self._known.extend(bytes(missing))
            self._digests.extend(bytes(missing * DIGEST_BYTES))
        place = slice(at * DIGEST_BYTES, (at + 1) * DIGEST_BYTES)
        if self._known[at] and self._digests[place] != outcome.digest and self.problem is None:
            self.problem = f"two different digests were published for offset {at}"
        if (
            outcome.state_digest
            and self._states.setdefault(at, outcome.state_digest) != outcome.state_digest
            and self.problem is None
        ):
            self.problem = f"two different digests of the state were published for offset {at}"
        self._known[at] = 1
        self._digests[place] = outcome.digest

    def digest(self, offset: int) -> bytes | None:
        if offset >= len(self._known) or not self._known[offset]:
            return None
        return bytes(self._digests[offset * DIGEST_BYTES : (offset + 1) * DIGEST_BYTES])

    def state_digest(self, offset: int) -> bytes | None:
        """Published for every hundredth offset; None where none was, as by earlier releases."""
        return self._states.get(offset)


class ProvingFold:
    """Takes commands in order; stops comparing at the first difference."""

    def __init__(self, published: PublishedDigests) -> None:
        self._published = published
        self._folder = Folder()
        self._proven = -1
        self.problem = published.problem

    def apply(self, offset: int, value: bytes | None) -> None:
        if self.problem is not None:
            return
        try:
            self._folder.apply(offset, value or b"")
        except ReleaseTooOld as error:
            self.problem = f"offset {offset}: {error}; use a newer release"
            return
        wanted = self._published.digest(offset)
        if wanted is None:
            return
        if wanted != self._folder.digest:
            self.problem = (
                f"the fold of the commands up to offset {offset} gives another digest than was "
                "published for it"
            )
            return
        state = self._published.state_digest(offset)
        if state is not None and state != self._folder.state_digest():
            self.problem = (
                f"the state behind offset {offset} has another digest than was published for it, "
                "though its history is the same"
            )
            return
        self._proven = offset

    @property
    def folder(self) -> Folder:
        """What the commands gave so far; going on with it ends this proof."""
        return self._folder

    @property
    def proof(self) -> Proof:
        return Proof(
            self._folder.next_offset, self._folder.digest.hex(), self._proven, self.problem
        )
