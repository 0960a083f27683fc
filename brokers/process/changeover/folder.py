"""What a changeover leaves in a store folder: the record of it, identity and epochs.

Responsible for: the file `placeInSet`, durable before it counts, and `releaseBegun`, on a master
that has told others to leave the controllers; the configuration that counts at a start; making the
other files what the order wants, as often as a start finds that undone.
Refuses to know: when a set changes over, what a store holds.

Epochs. A log of before has none, and every replica has the same one when the master gives up. So
all of it gets one label, the epoch of the order from offset 0 on, on every replica alike; the first
election begins the next epoch at the log's end. Released replicas have their epochs removed: bytes
that are written without any would carry the label of the last one, and two logs with different
bytes would look equal when the set is adopted again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from brokers.changeover.order import (
    DOCUMENT_BYTES_MAX,
    Kind,
    Lines,
    Order,
    Record,
    orders_of,
    record_of,
)
from brokers.changeover.placed import PlaceContradicts, counts, fields_of, text_of
from brokers.ha.epoch_file import EpochFile
from brokers.ha.epochs import EpochHistory
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.registration import Identity
from brokers.store.files.disk import sync_directory
from brokers.store.files.durable import replace_file

RECORD_NAME = "placeInSet"
CUT_OFF_NAME = "releaseBegun"
EPOCH_NAME = "epochFileCheckpoint"
OF_A_PLACE = (
    EPOCH_NAME,
    f"{EPOCH_NAME}.bak",
    f"{EPOCH_NAME}Seen",
    "brokerIdentity",
    "brokerIdentity-temp",
    "refusedEnds",
    CUT_OFF_NAME,
)
"""Files that say something of one place only. A log that was refused before is equal now."""

Model = TypeVar("Model", bound=BaseModel)

_log = logging.getLogger("regent.broker.changeover")


def lines_of(config: BaseModel) -> Lines:
    """What a configuration says of the place."""
    return Lines(getattr(config, "broker_id"), tuple(getattr(config, "controllers")))  # noqa: B009


def read_record(store_dir: Path) -> Record | None:
    """None when no changeover touched this folder. PlaceContradicts when the file cannot be
    read: which place this replica has is never guessed.
    """
    path = store_dir / RECORD_NAME
    try:
        document = _document(path)
        return None if document is None else record_of(document)
    except (ValueError, RecursionError) as error:
        raise PlaceContradicts(
            f"{path} cannot be read ({error}): put it back, or ask the other replicas of the set "
            "which place this one has, write its lines and remove the file"
        ) from error


def read_cut_off(store_dir: Path) -> tuple[Order, ...]:
    """The orders of a release that this master began to tell the others, and did not end; empty
    without one, and where the note cannot be read: it says only whom to ask.
    """
    path = store_dir / CUT_OFF_NAME
    try:
        document = _document(path)
        return () if document is None else orders_of(document)
    except (ValueError, RecursionError) as error:
        _log.error("%s cannot be read: %s", path, error)
        return ()


def write_cut_off(store_dir: Path, orders: Iterable[Order]) -> None:
    """Durable when it returns. OSError."""
    data = json.dumps([one.document() for one in orders], sort_keys=True).encode("utf-8")
    replace_file(store_dir / CUT_OFF_NAME, data)


def remove_cut_off(store_dir: Path) -> None:
    """Everybody named in it is with controllers. OSError."""
    (store_dir / CUT_OFF_NAME).unlink(missing_ok=True)


def _document(path: Path) -> object:
    """None without a file. ValueError, RecursionError."""
    try:
        with path.open("rb") as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"more than {DOCUMENT_BYTES_MAX} bytes")
    return json.loads(data)


def unsettled(store_dir: Path) -> Order | None:
    """The order whose first life begins now; None without one. PlaceContradicts."""
    record = read_record(store_dir)
    return None if record is None or record.settled else record.order


def write_record(store_dir: Path, record: Record) -> None:
    """Durable when it returns. OSError."""
    data = json.dumps(record.document(), sort_keys=True).encode("utf-8")
    replace_file(store_dir / RECORD_NAME, data)


def placed(written: Model, store_dir: Path, forget_epoch: Callable[[Path], None]) -> Model:
    """The configuration that counts when the broker's own file says `written`; its files are as it
    wants them. `forget_epoch(folder)`: what else was noted under an epoch is so no more.
    PlaceContradicts, OSError.
    """
    record = read_record(store_dir)
    if record is None:
        return written
    by_record = counts(lines_of(written), record)
    if not record.settled:
        settle(store_dir, record.order)
        forget_epoch(store_dir)
        write_record(store_dir, replace(record, settled=True))
    if not by_record:
        return written
    order = record.order
    _log.warning(
        "the file of this broker is older than its place: write %s instead of %s",
        text_of(order.lines),
        text_of(record.lines),
    )
    given = written.model_dump(include=set(written.model_fields_set))
    return type(written).model_validate(fields_of(given, order))


def settle(store_dir: Path, order: Order) -> None:
    """Identity and epochs as the order wants them, of a store that is not open. OSError."""
    for name in OF_A_PLACE:
        (store_dir / name).unlink(missing_ok=True)
    sync_directory(store_dir)
    if order.kind is Kind.FIXED:
        return
    if _has_log(store_dir):
        EpochFile(store_dir / EPOCH_NAME).save(EpochHistory.of((order.epoch, 0)), order.epoch)
    IdentityFiles(store_dir).write_identity(
        Identity(order.cluster_name, order.broker_name, order.broker_id, order.check_code)
    )


def _has_log(store_dir: Path) -> bool:
    folder = store_dir / "commitlog"
    return folder.is_dir() and any(folder.iterdir())
