"""
The fold: the log's records, one after the other, into state, outcome and digest (design D2).

Responsible for the order of the log, for what is readable, for repeats, and for the chained
digest. Business rules are `decide` and `evolve`. Refuses to know where records come from and
who reads the outcome: bulk start-up, the Faust agent, tests and Spark use this one object.
"""

from collections.abc import Mapping
from hashlib import sha256
from struct import Struct as Packed
from typing import Any

from msgspec import Struct

from events.codec import HEADER_BYTES, MARKER, MalformedRecord, UnknownFingerprint, decode
from events.codec import fingerprint_of as _fingerprint_of
from events.changes import Change
from events.commands import COMMANDS, ActivateRules, ClusterFormed, Command
from events.envelope import COMMAND_ID_BYTES, DIGEST_BYTES, Envelope
from events.outcomes import LABEL_REPEAT, UNREADABLE_KIND, Outcome
from processors import canonical, decide
from processors.decide_refusals import SUCCESS_CODE, UNDECIDED, Decision, Refusal
from processors.evolve import evolve
from processors.fold_repeats import FirstOutcome, RecentCommands
from processors.state import SUPPORTED_RULES, ControllerState

ZERO_DIGEST = bytes(DIGEST_BYTES)
NO_COMMAND_ID = bytes(COMMAND_ID_BYTES)
# How many offsets back a digest named in a command can be compared.
DIGESTS_KEPT = 4096
# Offset, then the lengths of record, outcome and changed sets.
_LENGTHS = Packed(">qIII")


class HoleInLog(Exception):
    """A record came that is not the next one: history is not whole (S11)."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(f"the log goes on at offset {got}, expected {expected}")
        self.expected = expected
        self.got = got


class ReleaseTooOld(Exception):
    """The log uses rules or schemas that this release does not have (design D3)."""


class Applied(Struct, frozen=True, gc=False):
    """
    What applying one record gave.

    `digest_agrees` compares the digest that the issuer named with ours at that offset: False
    must stop a controller (design D7), None means that it could not be compared.
    """

    offset: int
    record: Command | None
    outcome: Outcome
    digest_agrees: bool | None


class Folder:
    """
    The state after a prefix of the log, its last offset and digest.

    Invariants:
    - next_offset == offset + 1; offset is -1 before the first record.
    - a record that raises leaves everything as it was.
    """

    def __init__(
        self,
        state: ControllerState | None = None,
        offset: int = -1,
        digest: bytes = ZERO_DIGEST,
        recent: RecentCommands | None = None,
        supported_rules: tuple[int, ...] = SUPPORTED_RULES,
    ) -> None:
        self.supported_rules = supported_rules
        self.state = ControllerState() if state is None else state
        self.offset = offset
        self.digest = digest
        self.recent = RecentCommands() if recent is None else recent
        self._digests: dict[int, bytes] = {offset: digest}
        self._active: frozenset[bytes] = frozenset()
        self._active_of: tuple[str, ...] | None = None
        self._window = 0
        self._window_of: Mapping[str, str] | None = None

    @property
    def next_offset(self) -> int:
        """Offset of the record that must come next."""
        return self.offset + 1

    def copy(self) -> "Folder":
        """Return a folder that stays at this offset while this one goes on."""
        return Folder(self.state, self.offset, self.digest, self.recent.copy(), self.supported_rules)

    def apply(self, offset: int, data: bytes) -> Applied:
        """
        Fold the record at `offset`.

        Raises `HoleInLog` when it is not the next one, `ReleaseTooOld` when this release
        cannot know what the record means. Everything else, garbage too, gets an outcome.
        """
        if offset != self.offset + 1:
            raise HoleInLog(self.offset + 1, offset)
        command, decision, first = self._decide(data)
        state, changes = self.state, decision.changes
        for change in changes:
            state = evolve(state, change)
        parts = _digested_parts(offset, command, decision, first, state)
        # Each part is preceded by its length, so none can pass for another.
        text, changed = canonical.digested_bytes(parts), _changed_sets(changes, state) if changes else b""
        lengths = _LENGTHS.pack(offset, len(data), len(text), len(changed))
        digest = sha256(b"".join((self.digest, lengths, data, text, changed))).digest()
        outcome = Outcome(*parts, digest)
        agrees = None if command is None else self._digest_agrees(command.envelope)
        if command is not None and first is None and decision.refusal not in UNDECIDED:
            self.recent.remember(outcome.command_id, _first(outcome))
        self._advance(offset, state, digest)
        return Applied(offset, command, outcome, agrees)

    def _decide(self, data: bytes) -> tuple[Command | None, Decision, FirstOutcome | None]:
        """Return the command if readable, the decision, and the first outcome if it repeats."""
        command = self._read(data)
        if isinstance(command, Refusal):
            return None, Decision(command), None
        envelope = command.envelope
        first = self.recent.get(envelope.command_id)
        if first is not None:
            if (first.kind, first.broker_name) == _identity(command):
                return command, Decision(), first
            return command, Decision(Refusal.COMMAND_ID_REUSED), None
        refusal = decide.guard(self.state, command)
        if refusal is None and not isinstance(command, ClusterFormed):
            # Its first copy, if there was one, may stand where nothing is remembered any more.
            oldest = envelope.applied_offset + 1
            refusal = Refusal.OUTSIDE_WINDOW if oldest < self.recent.complete_from else None
        if refusal is not None:
            return command, Decision(refusal), None
        if isinstance(command, ClusterFormed) and not self.state.is_formed:
            self._require_rules(command.rules_version)
        decision = decide.rule(self.state, command)
        if decision.refusal is None and isinstance(command, ActivateRules):
            self._require_rules(command.rules_version)
        return command, decision, None

    def _read(self, data: bytes) -> Command | Refusal:
        """Return the command in `data`; bytes without an active schema are refused unread (D3)."""
        header = data[:HEADER_BYTES]
        if self._active_of is not self.state.fingerprints:
            self._learn_schemas()
        if header not in self._active:
            if not self.state.is_formed:
                return Refusal.NOT_FORMED
            marked = len(header) == HEADER_BYTES and header.startswith(MARKER)
            return Refusal.UNKNOWN_SCHEMA if marked else Refusal.UNREADABLE
        try:
            record = decode(data)
        except MalformedRecord:
            return Refusal.UNREADABLE
        except UnknownFingerprint as error:
            mark = error.fingerprint_hex
            raise ReleaseTooOld(
                f"schema {mark} is active in the log, this release does not have it; {self._who_has_it()}"
            ) from error
        return record if type(record) in _COMMANDS else Refusal.UNREADABLE

    def _learn_schemas(self) -> None:
        """Before the cluster there is one schema, then those that the log made active (D3)."""
        marks = self.state.fingerprints
        if self.state.is_formed:
            self._active_of = marks
            self._active = frozenset(MARKER + bytes.fromhex(mark) for mark in marks)
        else:  # Asked for anew at every record: both sides of forming could name none.
            self._active = frozenset([_FORMING_HEADER])

    def _digest_agrees(self, envelope: Envelope) -> bool | None:
        if len(envelope.applied_digest) != DIGEST_BYTES:
            return None
        if envelope.applied_offset > self.offset:
            return False  # It claims to have applied what did not exist yet.
        ours = self._digests.get(envelope.applied_offset)
        return None if ours is None else ours == envelope.applied_digest

    def _advance(self, offset: int, state: ControllerState, digest: bytes) -> None:
        self.state, self.offset, self.digest = state, offset, digest
        self._digests[offset] = digest
        self._digests.pop(offset - DIGESTS_KEPT, None)
        if state.settings is not self._window_of:
            self._window_of, self._window = state.settings, state.dedupe_window_offsets
        oldest = offset + 1 - self._window
        if oldest > self.recent.complete_from and state.is_formed:
            self.recent.forget_before(oldest)

    def _require_rules(self, version: int) -> None:
        if version not in self.supported_rules:
            ours = ", ".join(map(str, self.supported_rules))
            raise ReleaseTooOld(
                f"the log activates rules {version}, this release has rules {ours}; {self._who_has_it()}"
            )

    def _who_has_it(self) -> str:
        """Only the leader's word counts, so it was its release that activated them (D3)."""
        release, leader = self.state.leader_release, self.state.leader_id
        return f"release {release} of controller {leader} has it" if release else "a newer release has it"


def _identity(command: Command) -> tuple[str, str | None]:
    return type(command).__name__, getattr(command, "broker_name", None)


def _first(outcome: Outcome) -> FirstOutcome:
    told = (outcome.kind, outcome.broker_name, outcome.accepted, outcome.refusal, outcome.code)
    return FirstOutcome(outcome.command_offset, *told)


def _changed_sets(changes: tuple[Change, ...], state: ControllerState) -> bytes:
    """Return the canonical form of the sets that changed, ascending by name."""
    if len(changes) == 1:  # Nearly always.
        name = getattr(changes[0], "broker_name", None)
        found = None if name is None else state.sets.get(name)
        return b"" if found is None else canonical.set_bytes(found)
    names = sorted({getattr(change, "broker_name", None) for change in changes} - {None})
    all_found = [state.sets.get(name) for name in names]
    return b",".join([canonical.set_bytes(one) for one in all_found if one is not None])


def _digested_parts(
    offset: int,
    command: Command | None,
    decision: Decision,
    first: FirstOutcome | None,
    state: ControllerState,
) -> tuple[Any, ...]:
    """Return the fields of the outcome up to its digest (`canonical.DIGESTED_FIELDS`)."""
    command_id, kind, broker_name, cause = NO_COMMAND_ID, UNREADABLE_KIND, None, ""
    if command is not None:
        kind, broker_name = _identity(command)
        command_id, cause = command.envelope.command_id, command.envelope.cause
    accepted, refusal, code = _RESULTS[decision.refusal]
    labels = decision.labels
    if first is not None:
        accepted, refusal, code, labels = first.accepted, first.refusal, first.code, (LABEL_REPEAT,)
    return (
        offset,
        command_id,
        state.cluster_id,
        state.term,
        kind,
        broker_name,
        cause,
        accepted,
        refusal,
        code,
        labels,
        decision.changes,
        decision.candidates,
    )


_COMMANDS = frozenset(COMMANDS)
_FORMING_HEADER = MARKER + bytes.fromhex(_fingerprint_of(ClusterFormed))

# Asked once for each reason, not for each record: accepted, name, response code.
_RESULTS: Mapping[Refusal | None, tuple[bool, str | None, int]] = {
    None: (True, None, SUCCESS_CODE),
    **{refusal: (False, refusal.name, Decision(refusal).code) for refusal in Refusal},
}
