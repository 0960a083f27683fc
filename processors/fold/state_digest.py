"""A digest of the state itself, published with every hundredth outcome (design D4, D7).

The chained digest says which records were folded; it does not say that a state in a file is what
they give. This one does: so a snapshot of such an offset can be proven by what was published,
whoever wrote it.

Responsible for what is in the digest and how little is done again for the next one. Refuses to know
files and topics. Changing the form makes snapshots of earlier releases worthless (they are folded
again), never wrong.
"""

from hashlib import sha256
from struct import Struct as Packed

from msgspec.json import Encoder
from msgspec.structs import astuple

from processors.fold import canonical
from processors.fold.recent_commands import FirstOutcome, RecentCommands
from processors.fold.state import BrokerSet, ControllerState

STATE_DIGEST_EVERY = 100
"""Commands. Also where snapshots are written; a start folds fewer records than this more because
of it.
"""
_FORM = b"regent-state 1\n"
_BLOCK = Packed(">q32s")


def has_state_digest(offset: int) -> bool:
    """Whether the outcome of the command at that offset carries a digest of the state behind it."""
    return (offset + 1) % STATE_DIGEST_EVERY == 0


def newest_state_digest(next_offset: int) -> int:
    """The last offset below `next_offset` that `has_state_digest`; -1 when there is none."""
    return next_offset // STATE_DIGEST_EVERY * STATE_DIGEST_EVERY - 1


class StateDigests:
    """Digests of one folder's states, one after the other: only what changed in between is read
    again.

    Remembered ids are taken in blocks of `STATE_DIGEST_EVERY` offsets, of which each is whole when
    it is first looked at; the oldest one may be half forgotten, and is never kept.
    """

    def __init__(self) -> None:
        self._sets: dict[str, tuple[BrokerSet, bytes]] = {}
        self._blocks: dict[int, bytes] = {}

    def digest(self, state: ControllerState, recent: RecentCommands) -> bytes:
        """32 bytes for the state behind an offset that `has_state_digest`, with what it knows of
        repeats.
        """
        sets, blocks = self._digests_of(state), self._blocks_of(recent)
        head = _encode(
            [
                state.cluster_id,
                state.term,
                state.leader_id,
                state.leader_address,
                state.leader_release,
                state.rules_version,
                sorted(state.settings.items()),
                state.fingerprints,
                recent.complete_from,
                len(sets),
                len(blocks),
            ]
        )
        return sha256(b"".join((_FORM, head, b"\n", *sets, *blocks))).digest()

    def _digests_of(self, state: ControllerState) -> list[bytes]:
        known, found = self._sets, []
        for name in sorted(state.sets):
            broker_set, kept = state.sets[name], known.get(name)
            if kept is None or kept[0] is not broker_set:
                kept = known[name] = (broker_set, sha256(canonical.set_bytes(broker_set)).digest())
            found.append(kept[1])
        if len(known) > len(found):
            self._sets = {name: kept for name, kept in known.items() if name in state.sets}
        return found

    def _blocks_of(self, recent: RecentCommands) -> list[bytes]:
        first, begun = divmod(recent.complete_from, STATE_DIGEST_EVERY)
        self._blocks = {
            at: block
            for at, block in self._blocks.items()
            if at > first or (at == first and not begun)
        }
        newest = max(self._blocks, default=first - 1)
        fresh = [
            one
            for one in _behind(recent, newest)
            if one[1].offset // STATE_DIGEST_EVERY > (first if begun else -1)
        ]
        self._blocks.update(_packed(fresh))
        oldest = _packed(_up_to(recent, first)) if begun else {}
        return [_BLOCK.pack(at, block) for at, block in sorted({**oldest, **self._blocks}.items())]


_Entry = tuple[bytes, FirstOutcome]


def _behind(recent: RecentCommands, newest_block: int) -> list[_Entry]:
    """Entries behind that block, oldest first."""
    found = []
    for entry in recent.newest_first():
        if entry[1].offset // STATE_DIGEST_EVERY <= newest_block:
            break
        found.append(entry)
    return found[::-1]


def _up_to(recent: RecentCommands, block: int) -> list[_Entry]:
    """Entries of that block and of those before it, oldest first."""
    found = []
    for entry in recent.items():
        if entry[1].offset // STATE_DIGEST_EVERY > block:
            break
        found.append(entry)
    return found


def _packed(entries: list[_Entry]) -> dict[int, bytes]:
    """A digest for each block of offsets."""
    blocks: dict[int, list[object]] = {}
    for command_id, first in entries:
        blocks.setdefault(first.offset // STATE_DIGEST_EVERY, []).append(
            (command_id.hex(), *astuple(first))
        )
    return {at: sha256(_encode(block)).digest() for at, block in blocks.items()}


_encode = Encoder().encode
