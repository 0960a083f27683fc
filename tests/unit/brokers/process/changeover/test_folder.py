"""What a changeover leaves in a store folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brokers.changeover.order import DOCUMENT_BYTES_MAX, Kind, Lines, Order, Record
from brokers.changeover.placed import PlaceContradicts
from brokers.ha.epoch_file import EpochFile
from brokers.ha.epochs import EpochHistory
from brokers.membership.identity_file import IdentityFiles
from brokers.process.changeover.folder import (
    CUT_OFF_NAME,
    EPOCH_NAME,
    RECORD_NAME,
    placed,
    read_cut_off,
    read_record,
    unsettled,
    write_cut_off,
    write_record,
)
from brokers.process.config import BrokerConfig
from brokers.process.held_position import HELD_NAME, Held, HeldPosition, forget_epoch, read_held
from events.acting_events import PlaceChanged
from events.codec import decode, encode
from events.event_header import BrokerEventHeader

ADOPTED = Order("c", Kind.CONTROLLERS, "regent", "a", "h:1", "h:1", 2, 2, ("k:1",), "h:1;x", 4)
RELEASED = Order("d", Kind.FIXED, "regent", "a", "h:1", "h:1", 0, 2)


def fixed(folder: Path, **more: object) -> BrokerConfig:
    fields = {"broker_name": "a", "broker_id": 1, "name_servers": ["n:1"], "store_dir": folder}
    return BrokerConfig.model_validate({**fields, **more})


def a_log(folder: Path) -> None:
    (folder / "commitlog").mkdir()
    (folder / "commitlog" / "00000000000000000000").write_bytes(b"bytes")


def test_a_folder_without_a_record_is_what_its_file_says(tmp_path: Path) -> None:
    config = fixed(tmp_path)
    assert placed(config, tmp_path, forget_epoch) is config


def test_the_first_life_of_a_place_is_known_as_such_and_no_later_one(tmp_path: Path) -> None:
    assert unsettled(tmp_path) is None, "no changeover touched this folder"
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    assert unsettled(tmp_path) == ADOPTED
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    assert unsettled(tmp_path) is None


@pytest.mark.parametrize("order", [ADOPTED, RELEASED], ids=["adopted", "released"])
def test_what_is_told_of_a_place_is_an_event_without_what_proves_an_id(order: Order) -> None:
    header = BrokerEventHeader(bytes(16), "regent", "a", order.broker_id, "i", 1, 1)
    event = PlaceChanged(header=header, **order.told())
    assert decode(encode(event)) == event and "code" not in repr(event)
    assert (event.kind, event.epoch) == (order.kind.value, order.epoch)


def test_an_adopted_replica_has_its_id_and_one_label_for_all_of_its_log(tmp_path: Path) -> None:
    a_log(tmp_path)
    HeldPosition(tmp_path).keep(Held(-1, 5))
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    config = placed(fixed(tmp_path, enable_slave_acting_master=True), tmp_path, forget_epoch)
    assert (config.broker_id, config.controllers, config.all_ack) == (None, ["k:1"], True)
    assert config.min_in_sync_replicas == 2 and not config.enable_slave_acting_master
    identity = IdentityFiles(tmp_path).read_identity()
    assert identity is not None and (identity.broker_id, identity.register_check_code) == (
        2,
        "h:1;x",
    )
    assert EpochFile(tmp_path / EPOCH_NAME).load() == (EpochHistory.of((4, 0)), 4)
    assert read_held(tmp_path / HELD_NAME) == Held(-1, 5)
    record = read_record(tmp_path)
    assert record is not None and record.settled


def test_an_empty_replica_has_no_label(tmp_path: Path) -> None:
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    assert not (tmp_path / EPOCH_NAME).exists()


def test_what_was_settled_is_left_alone_by_later_starts(tmp_path: Path) -> None:
    a_log(tmp_path)
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    grown = EpochHistory.of((4, 0), (5, 90))
    EpochFile(tmp_path / EPOCH_NAME).save(grown, 5)
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    assert EpochFile(tmp_path / EPOCH_NAME).load()[0] == grown


def test_a_released_replica_keeps_its_log_and_no_epoch(tmp_path: Path) -> None:
    a_log(tmp_path)
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    HeldPosition(tmp_path).keep(Held(5, 90))
    write_record(tmp_path, Record(RELEASED, Lines(1)))
    config = placed(fixed(tmp_path), tmp_path, forget_epoch)
    assert (config.broker_id, config.controllers, config.broker_role) == (0, [], "SYNC_MASTER")
    assert config.in_sync_replicas == 2 and not config.all_ack
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {"commitlog", HELD_NAME, RECORD_NAME}
    assert read_held(tmp_path / HELD_NAME) == Held(-1, 90)


def test_a_start_that_was_killed_while_it_settled_settles_again(tmp_path: Path) -> None:
    a_log(tmp_path)
    write_record(tmp_path, Record(ADOPTED, Lines(1)))
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    write_record(tmp_path, Record(RELEASED, Lines(1)))
    (tmp_path / "brokerIdentity").unlink()
    assert placed(fixed(tmp_path), tmp_path, forget_epoch).broker_id == 0
    assert not (tmp_path / EPOCH_NAME).exists()


def test_the_file_that_was_put_right_counts_itself(tmp_path: Path) -> None:
    write_record(tmp_path, Record(replace(RELEASED, broker_id=1), Lines(None, ("k:1",))))
    config = fixed(tmp_path, in_sync_replicas=3)
    assert placed(config, tmp_path, forget_epoch) is config


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b"{}", b"\xff", b"[" * 100_000, b" " * (DOCUMENT_BYTES_MAX + 1)]
)
def test_a_record_that_cannot_be_read_is_never_guessed_around(tmp_path: Path, data: bytes) -> None:
    (tmp_path / RECORD_NAME).write_bytes(data)
    with pytest.raises(PlaceContradicts, match="remove the file"):
        read_record(tmp_path)


def test_a_note_of_a_release_lasts_until_the_place_is_another_one(tmp_path: Path) -> None:
    assert read_cut_off(tmp_path) == ()
    write_cut_off(tmp_path, (RELEASED,))
    assert read_cut_off(tmp_path) == (RELEASED,)
    write_record(tmp_path, Record(RELEASED, Lines(1)))
    placed(fixed(tmp_path), tmp_path, forget_epoch)
    assert read_cut_off(tmp_path) == ()
    (tmp_path / CUT_OFF_NAME).write_bytes(b"{")
    assert read_cut_off(tmp_path) == (), "it says only whom to ask"
