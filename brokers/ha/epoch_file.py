"""The epoch history on disk: RocketMQ's epochFileCheckpoint, and beside it the highest epoch heard
of.

Responsible for: the text format of PROTOCOL 2.7 and durable replacement (design
S12).
Refuses to know: when a history changes and why. What cannot be read is refused, never guessed: a
wrong label can make two different logs look equal.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path

from brokers.ha.epochs import EPOCH_MAX, EpochError, EpochHistory
from brokers.store.files.disk import sync_directory
from brokers.store.files.durable import replace_file

FILE_BYTES_MAX = 1024 * 1024
ASIDE_SUFFIX = ".setAside"
CRC_MASK = 0x7FFFFFFF
CRC_UNCHECKED = 0
NONE_HERE = "older"
"""Mark of an epoch seen under which no link was agreed on: every byte of the log is older."""

_log = logging.getLogger("regent.broker.epochs")


class EpochFileError(Exception):
    """Neither the epoch file nor its copy can be read; the text says what an operator can do."""


def format_epochs(epochs: EpochHistory) -> str:
    """Count, CRC-32 of what follows, then `epoch-startOffset` lines, each ended by LF."""
    lines = "".join(f"{entry.epoch}-{entry.start_offset}\n" for entry in epochs.entries)
    return f"{len(epochs.entries)}\n{zlib.crc32(lines.encode()) & CRC_MASK}\n{lines}"


def parse_epochs(text: str) -> EpochHistory:
    """ValueError when count, CRC (0: not to be checked) or the entries are not as they were
    written.
    """
    head = text.split("\n", 2)
    if len(head) != 3:
        raise ValueError("fewer than two lines")
    count, crc, lines = _number(head[0]), _number(head[1]), head[2]
    if crc not in (CRC_UNCHECKED, zlib.crc32(lines.encode()) & CRC_MASK):
        raise ValueError(f"checksum is not {crc}")
    pairs = [line.split("-") for line in lines.splitlines()]
    if len(pairs) != count or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{len(pairs)} entries, {count} announced")
    try:
        return EpochHistory.from_pairs((_number(epoch), _number(start)) for epoch, start in pairs)
    except EpochError as error:
        raise ValueError(str(error)) from error


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


class EpochFile:
    """`path`, `path`.bak (a second copy of the same content) and `path`Seen.

    RocketMQ keeps the *previous* content in .bak. Read after the newest entry got lost, that would
    put the newest bytes under an older label; so ours is written after the file itself, with equal
    content.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.from_backup = False
        self.none_of_seen = False
        self._backup = self.path.with_name(self.path.name + ".bak")
        self._seen = self.path.with_name(self.path.name + "Seen")
        self._written = EpochHistory()
        self._seen_on_disk = 0

    def load(self) -> tuple[EpochHistory, int]:
        """(history, highest epoch seen); both empty for a fresh replica. EpochFileError when torn.

        Sets `none_of_seen` as it was saved, and `from_backup` when only the copy was readable: such
        a replica cannot vouch for its newest entry and should count as unclean (S5).
        """
        self._written = self._load_history()
        self._seen_on_disk, self.none_of_seen = self._load_seen()
        return self._written, max(self._seen_on_disk, self._written.newest_epoch)

    def _load_history(self) -> EpochHistory:
        if not self.path.exists() and not self._backup.exists():
            return EpochHistory()
        reasons = []
        for path in (self.path, self._backup):
            try:
                epochs = parse_epochs(_read_text(path))
            except (OSError, ValueError) as error:
                reasons.append(f"{path}: {error}")
                continue
            self.from_backup = path == self._backup
            return epochs
        raise EpochFileError(
            f"epoch file unreadable ({'; '.join(reasons)}): "
            "move the store folder away and start this replica empty"
        )

    def _load_seen(self) -> tuple[int, bool]:
        if not self._seen.exists():
            return 0, False
        try:
            epoch_text, *marks, crc = _read_text(self._seen).split()
            epoch = _number(epoch_text)
            if marks not in ([], [NONE_HERE]) or _number(crc) != _seen_crc(epoch, bool(marks)):
                raise ValueError("checksum is wrong")
        except (OSError, ValueError) as error:
            raise EpochFileError(
                f"{self._seen}: {error}: move the store folder away and start this replica empty"
            ) from error
        return (epoch, bool(marks)) if epoch <= EPOCH_MAX else self._set_aside(epoch)

    def _set_aside(self, epoch: int) -> tuple[int, bool]:
        """An earlier release wrote what no controller can have decided (a forged notice, S18): the
        log is as good as before.
        """
        aside = self._seen.with_name(self._seen.name + ASIDE_SUFFIX)
        os.replace(self._seen, aside)
        sync_directory(aside.parent)
        _log.warning(
            "%s: epoch %d is above %d and was never decided: set aside as %s",
            self._seen,
            epoch,
            EPOCH_MAX,
            aside,
        )
        return 0, False

    def save(self, epochs: EpochHistory, epoch_seen: int, none_of_seen: bool = False) -> None:
        """Durable on return. An empty history is not written (2.7): its labels cover no bytes then.

        `none_of_seen`: of the epoch seen no byte is here. OSError when the disk refuses.
        """
        wanted = epochs or self._written
        # Entries that stay on disk vouch for their own epochs; written first, so that a cut loses
        # none.
        changed = epoch_seen > self._seen_on_disk or none_of_seen != self.none_of_seen
        if changed and epoch_seen > wanted.newest_epoch:
            crc = _seen_crc(epoch_seen, none_of_seen)
            replace_file(self._seen, f"{_seen_text(epoch_seen, none_of_seen)} {crc}\n".encode())
            self._seen_on_disk, self.none_of_seen = epoch_seen, none_of_seen
        if wanted != self._written:
            content = format_epochs(wanted).encode()
            replace_file(self.path, content)
            self._backup.write_bytes(content)
            self._written = wanted


def _seen_text(epoch: int, none_here: bool) -> str:
    return f"{epoch} {NONE_HERE}" if none_here else str(epoch)


def _seen_crc(epoch: int, none_here: bool) -> int:
    return zlib.crc32(_seen_text(epoch, none_here).encode()) & CRC_MASK


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes are too many")
    return data.decode("utf-8")
