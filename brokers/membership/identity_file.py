"""The identity files of a broker: `brokerIdentity` and `brokerIdentity-temp` (RULES
10.2).

RocketMQ writes three fields into `brokerIdentity`; ours has the check code as a fourth, which
RocketMQ does not look at.

Responsible for: their one-line text and their durability (write, sync, rename, sync of the folder:
design S12).
Refuses to know: when they are written, and what the controller thinks of them.
"""

from __future__ import annotations

from pathlib import Path

from brokers.membership.registration import Identity, TempIdentity
from brokers.store.files.disk import sync_directory
from brokers.store.files.durable import replace_file

IDENTITY_FILE_BYTES_MAX = 4096
SEPARATOR = "#"
CODE_MARK = ";"
"""Between the address and the rest of every check code."""


class IdentityFileError(Exception):
    """An identity file is there and cannot be read as one; it is never guessed around."""


class IdentityFiles:
    """Reads and writes the two identity files below `store_dir`."""

    def __init__(self, store_dir: Path) -> None:
        self.identity_path = store_dir / "brokerIdentity"
        self.temp_path = store_dir / "brokerIdentity-temp"

    def read_identity(self) -> Identity | None:
        """The permanent identity, None when there is no file; `IdentityFileError` when it is
        torn.
        """
        fields = _read_fields(self.identity_path, 3, or_one_more=True)
        if fields is None:
            return None
        if not all(CODE_MARK in code for code in fields[3:]):
            raise IdentityFileError(
                f"{self.identity_path} ends with something else than a check code"
            )
        return Identity(
            fields[0], fields[1], _broker_id(self.identity_path, fields[2]), *fields[3:]
        )

    def read_temp(self) -> TempIdentity | None:
        """The identity asked for; a torn temp file counts as none, since nothing was sent before it
        was durable.
        """
        try:
            fields = _read_fields(self.temp_path, 4)
            if fields is None:
                return None
            return TempIdentity(
                fields[0], fields[1], _broker_id(self.temp_path, fields[2]), fields[3]
            )
        except IdentityFileError:
            return None

    def write_identity(self, identity: Identity) -> None:
        """Durable when it returns; OSError when the disk refuses."""
        fields = (identity.cluster_name, identity.broker_name, str(identity.broker_id))
        code = (identity.register_check_code,) if identity.register_check_code else ()
        _write_durably(self.identity_path, fields + code)

    def write_temp(self, temp: TempIdentity) -> None:
        """Durable when it returns; OSError when the disk refuses."""
        _write_durably(
            self.temp_path,
            (temp.cluster_name, temp.broker_name, str(temp.broker_id), temp.register_check_code),
        )

    def delete_temp(self) -> None:
        if self.temp_path.exists():
            self.temp_path.unlink()
            sync_directory(self.temp_path.parent)


def _read_fields(path: Path, count: int, or_one_more: bool = False) -> list[str] | None:
    try:
        with path.open("rb") as file:
            data = file.read(IDENTITY_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise IdentityFileError(f"{path} is not text") from error
    fields = text.split(SEPARATOR)
    if (
        len(data) > IDENTITY_FILE_BYTES_MAX
        or len(fields) not in (count, count + or_one_more)
        or not all(fields)
    ):
        raise IdentityFileError(f"{path} does not hold {count} fields separated by {SEPARATOR}")
    return fields


def _broker_id(path: Path, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise IdentityFileError(f"{path} names broker id {text!r}, which is not a positive number")
    return int(text)


def _write_durably(path: Path, fields: tuple[str, ...]) -> None:
    if any(SEPARATOR in field or "\n" in field for field in fields[:3]):
        raise OSError(f"a name with {SEPARATOR!r} or a line end cannot be written to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, SEPARATOR.join(fields).encode("utf-8"))
