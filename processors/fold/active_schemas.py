"""Which bytes of the log are commands: those of the schemas that the log itself made active
(design D3).

Responsible for bytes to command, or why not. Refuses to know what a command does.
"""

from collections.abc import Callable, Mapping

from events.codec import (
    HEADER_BYTES,
    MARKER,
    MalformedRecord,
    UnknownFingerprint,
    command_decoders,
    decode,
    fingerprint_of,
)
from events.commands import ClusterFormed, Command
from processors.fold.refusals import Refusal
from processors.fold.state import ControllerState

Read = Command | Refusal | UnknownFingerprint
"""What bytes are: the last is a schema that is active in the log and unknown to this release."""


class ActiveSchemas:
    """Reads as the state says; learns when its fingerprints are others than before."""

    def __init__(self) -> None:
        self._decoders: Mapping[bytes, Callable[[bytes], Read]] = {}
        self._learnt_of: tuple[str, ...] | None = None

    def reader(self, state: ControllerState) -> Callable[[bytes], Read]:
        """Return what reads records while `state` is in force; without an active schema they are
        refused unread.
        """
        if state.fingerprints is not self._learnt_of:
            self._learn(state)
        return self._read

    def _read(self, data: bytes) -> Read:
        decoder = self._decoders.get(data[:HEADER_BYTES])
        if decoder is None:
            return self._why_unread(data)
        try:
            return decoder(data)
        except MalformedRecord:
            return Refusal.UNREADABLE

    def _why_unread(self, data: bytes) -> Refusal:
        if self._learnt_of is None:
            return Refusal.NOT_FORMED
        marked = len(data) >= HEADER_BYTES and data.startswith(MARKER)
        return Refusal.UNKNOWN_SCHEMA if marked else Refusal.UNREADABLE

    def _learn(self, state: ControllerState) -> None:
        """Before the cluster there is one schema, then those that the log made active."""
        if state.is_formed:
            self._learnt_of = state.fingerprints
            headers = [MARKER + bytes.fromhex(mark) for mark in state.fingerprints]
            self._decoders = {header: _DECODERS.get(header, _read_no_command) for header in headers}
        else:  # Asked for anew at every record: both sides of forming could name none.
            self._decoders = {_FORMING: _DECODERS[_FORMING]}


def _read_no_command(data: bytes) -> Read:
    """Read an active schema of something else: of this release, or of a later one."""
    try:
        decode(data)
    except UnknownFingerprint as error:
        return error
    return Refusal.UNREADABLE


def _header_of(cls: type) -> bytes:
    return MARKER + bytes.fromhex(fingerprint_of(cls))


_DECODERS: Mapping[bytes, Callable[[bytes], Read]] = command_decoders()
_FORMING = _header_of(ClusterFormed)
