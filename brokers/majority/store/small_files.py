"""The small files beside a majority log, durable: term and vote, checkpoint, what a member owes.

Responsible for: replacing each whole (S12), a bounded read, what is believed of a folder that Java
left in the middle of a replacement. Refuses to know: when something is written, and why.
"""

from __future__ import annotations

from pathlib import Path

from brokers.majority.entry import Place
from brokers.majority.log_port import TermAndVote
from brokers.majority.store.marks import (
    CHECKPOINT_NAME,
    FILE_BYTES_MAX,
    OWED_NAME,
    TERM_NAME,
    Marks,
    Unreadable,
    format_checkpoint,
    format_owed,
    format_term,
    is_member_id,
    parse_checkpoint,
    parse_owed,
    parse_term,
)
from brokers.store.files.disk import sync_directory
from brokers.store.files.disk_space import Spare
from brokers.store.files.durable import replace_file
from brokers.store.files.errors import LogError

_JAVAS_NEXT, _JAVAS_LAST = f"{TERM_NAME}.tmp", f"{TERM_NAME}.bak"


class SmallFiles:
    """Checkpoint and debt of one folder. `spare` lets them be written on a full disk."""

    def __init__(self, root: Path, spare: Spare) -> None:
        self._root, self._spare = root, spare

    def load_marks(self) -> Marks:
        """The defaults when there is no checkpoint, and what can be read of a torn one."""
        text = _read(self._root / CHECKPOINT_NAME)
        return Marks(durable=None) if text is None else parse_checkpoint(text)

    def save_marks(self, marks: Marks) -> None:
        """Durable on return. OSError."""
        self._replace(CHECKPOINT_NAME, format_checkpoint(marks))

    def load_owed(self) -> Place | None:
        """LogError when it is torn: a member that owes something must know it."""
        text = _read(self._root / OWED_NAME)
        try:
            return None if text is None else parse_owed(text)
        except Unreadable as error:
            raise _refused(self._root / OWED_NAME, str(error)) from error

    def save_owed(self, owed: Place | None) -> None:
        """Durable on return. OSError."""
        if owed is not None:
            self._replace(OWED_NAME, format_owed(owed))
        else:
            (self._root / OWED_NAME).unlink(missing_ok=True)
            sync_directory(self._root)

    def _replace(self, name: str, text: str) -> None:
        self._spare.run(lambda: replace_file(self._root / name, text.encode()))


class TermFile:
    """See `log_port.TermStore`. Java writes the same file beside `.tmp` and `.bak`, without a sync,
    and for a moment there is none of that name.
    """

    def __init__(self, root: Path, spare: Spare, *, fresh: bool) -> None:
        """`fresh`: no log says that this member has lived. LogError when it has, and what it
        promised cannot be read.
        """
        self._path, self._spare = root / TERM_NAME, spare
        self.state = self._load(fresh)

    def _load(self, fresh: bool) -> TermAndVote:
        names: tuple[str, ...] = (TERM_NAME,)
        if not self._path.exists():
            # Java was killed between removing the old file and renaming the new one.
            names = _JAVAS_NEXT, _JAVAS_LAST
        flaws = {}
        for name in names:
            text = _read(self._path.with_name(name))
            if text is None:
                continue
            try:
                return parse_term(text)
            except Unreadable as error:
                flaws[name] = str(error)
        if fresh and flaws.keys() <= {_JAVAS_NEXT}:
            return TermAndVote()  # nothing was promised before the first file was whole
        raise _refused(self._path, next(iter(flaws.values()), "it is missing"))

    def save(self, state: TermAndVote) -> None:
        """Durable on return. OSError. ValueError for what takes a promise back."""
        known = self.state
        if state.term < known.term:
            raise ValueError(f"term {known.term} was accepted, {state.term} is below")
        if state.term == known.term and known.voted_for not in (None, state.voted_for):
            raise ValueError(f"{known.voted_for} has the vote of term {known.term}")
        if state.voted_for is not None and not is_member_id(state.voted_for):
            raise ValueError(f"{state.voted_for!r} is no member id")
        if state != known:
            data = format_term(state).encode()
            self._spare.run(lambda: replace_file(self._path, data))
            self.state = state


def _read(path: Path) -> str | None:
    """Its text, None when there is no such file. Java writes without a sync: any bytes may be
    there.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    return "" if len(data) > FILE_BYTES_MAX else data.decode("utf-8", "replace")


def _refused(path: Path, flaw: str) -> LogError:
    return LogError(
        f"{path}: {flaw}, so nobody knows what this member promised; write it as it was, "
        "with a term that no member has reached if it is not known"
    )
