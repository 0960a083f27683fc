"""Following at close range: what the whole-set tests of test_core.py do not reach."""

from __future__ import annotations

import pytest

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import MasterHandshake, SlaveFrameDecoder, SlaveHandshake, Transfer
from brokers.ha.slave_link import MASTER_BEGINS_LATER
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.ha_address import HaAddress, HaAddressSource
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.slave_role import SlaveRole

H = EpochHistory.of
CONFIG = ReplicaConfig(file_bytes=1000)


def slave(
    address: str | None = "m:1",
    *,
    strict: bool = True,
    end: int = 0,
    epochs: EpochHistory = H(),
    config: ReplicaConfig = CONFIG,
) -> SlaveRole:
    log = ReplicaLog(epochs=epochs, end_offset=end, min_offset=0, confirm_offset=0, epoch_seen=4)
    return SlaveRole(
        config,
        log,
        broker_id=2,
        master_id=1,
        epoch=4,
        strict_epoch=strict,
        ha_address=HaAddress(address),
        now_ms=0,
        master_address="m:0",
    )


def test_how_it_copies_is_told_in_the_handshake() -> None:
    for last_file, learner in ((False, False), (True, False), (False, True)):
        config = ReplicaConfig(
            file_bytes=1000, sync_from_last_file=last_file, async_learner=learner
        )
        (hello,) = linked(slave(config=config))
        assert isinstance(hello, fx.SendBytes)
        assert SlaveFrameDecoder().feed(hello.data) == [SlaveHandshake(2, last_file, learner)]


def kinds(effects: list[fx.Effect]) -> list[str]:
    return [
        item.kind if isinstance(item, fx.ReportEvent) else type(item).__name__ for item in effects
    ]


def linked(role: SlaveRole) -> list[fx.Effect]:
    role.connect(0)
    return role.link_opened(5, 0)


def test_it_connects_at_once_and_once() -> None:
    role = slave()
    assert role.connect(0) == [fx.ConnectHa("m:1")]
    assert role.connect(0) == []
    (hello,) = role.link_opened(5, 0)
    assert isinstance(hello, fx.SendBytes) and len(hello.data) == 16
    assert role.connect(10_000) == []


def test_without_an_address_it_waits_for_one() -> None:
    role = slave(None)
    assert role.connect(0) == [fx.AskHaAddress("m:0")] and role.tick(100) == []
    assert role.move_to("m:2", 200) == [fx.ConnectHa("m:2")]


def java_slave(guess_at_ms: int = 3000) -> SlaveRole:
    role = slave(None, strict=False)
    role.ha_address = HaAddress(None, "m:1", guess_at_ms)
    return role


def test_where_a_java_master_takes_links_is_asked_until_there_is_a_link() -> None:
    role = java_slave()
    assert role.connect(0) == [fx.AskHaAddress("m:0")]
    assert role.tick(499) == [] and role.tick(500) == [fx.AskHaAddress("m:0")]
    assert role.hear_address("m:7", HaAddressSource.NAME_SERVER, 510) == [fx.ConnectHa("m:7")]
    assert role.hear_address("m:7", HaAddressSource.NAME_SERVER, 511) == []
    role.connect_failed(520)
    assert fx.AskHaAddress("m:0") in role.tick(1000) + role.tick(1100)


def test_the_usual_port_is_tried_when_nobody_says_another() -> None:
    role = java_slave(guess_at_ms=3000)
    role.connect(0)
    assert not [item for item in role.tick(2999) if isinstance(item, fx.ConnectHa)]
    assert fx.ConnectHa("m:1") in role.tick(3000)
    assert role.hear_address("m:7", HaAddressSource.NAME_SERVER, 3001) == [fx.ConnectHa("m:7")]


def test_hearsay_does_not_end_a_link() -> None:
    role = java_slave()
    role.hear_address("m:7", HaAddressSource.MASTER, 0)
    role.link_opened(5, 0)
    assert role.hear_address("m:8", HaAddressSource.MASTER, 1) == [] and role.link_id == 5
    assert role.master_heard("m:0", "m:1", 2) == [] and role.link_id == 5


def test_an_address_told_of_a_master_that_moved_is_forgotten() -> None:
    role = java_slave()
    role.hear_address("m:7", HaAddressSource.MASTER, 0)
    role.connect_failed(1)
    assert role.master_heard("n:0", "n:1", 2) == [fx.AskHaAddress("n:0")]
    assert role.connect(2999) == [fx.AskHaAddress("n:0")]
    assert fx.ConnectHa("n:1") in role.connect(3002)


def test_news_of_the_same_address_end_the_backoff() -> None:
    role = slave()
    role.connect(0)
    for now_ms in (0, 100, 200, 400, 900):
        role.connect_failed(now_ms)
        role.connect(now_ms + 500)
    role.connect_failed(2000)
    assert role.connect(2001) == []
    assert role.move_to("m:1", 2002) == [fx.ConnectHa("m:1")]


def test_bytes_are_appended_before_they_are_acknowledged_and_confirmed() -> None:
    role = slave()
    linked(role)
    role.link_data(MasterHandshake(100, H((4, 0))).encode(), 1)
    effects = role.link_data(Transfer(0, 4, 0, 60, b"x" * 100).encode(), 2)
    assert kinds(effects) == [
        "WriteEpochs",
        "EpochAppended",
        "AppendRaw",
        "ConfirmMoved",
        "ConfirmCrossedEpoch",
        "SendBytes",
    ]
    assert effects[3] == fx.ConfirmMoved(60)
    assert role.caught_up


def test_a_link_that_breaks_has_what_came_over_it_flushed() -> None:
    """The master may be gone for good; nothing waits for it, and a link that copied nothing has
    nothing to flush.
    """
    for how in (lambda role: role.link_closed("reset", 3), lambda role: role.close("silent", 3)):
        role = slave()
        linked(role)
        role.link_data(MasterHandshake(100, H((4, 0))).encode(), 1)
        role.link_data(Transfer(0, 4, 0, 60, b"x" * 100).encode(), 2)
        assert kinds(how(role))[-2:] == ["FlushLog", "HaLinkDown"]
    role = slave()
    linked(role)
    assert kinds(role.link_closed("reset", 1)) == []


@pytest.mark.parametrize(
    ("confirmed", "epoch_start", "enough"), [(60, 0, 60), (60, 80, 80), (120, 0, 100)]
)
def test_it_has_not_caught_up_before_it_holds_what_lets_it_into_the_set(
    confirmed: int, epoch_start: int, enough: int
) -> None:
    """What is confirmed, and all that was there when its master began; what was at the handshake is
    always enough.
    """
    epochs = H((4, 0)) if epoch_start == 0 else H((3, 0), (4, epoch_start))
    role, label = slave(), (epochs.entries[0].epoch, 0)
    linked(role)
    role.link_data(MasterHandshake(100, epochs).encode(), 1)
    assert not role.caught_up
    first = min(enough - 1, epoch_start or enough)
    role.link_data(Transfer(0, *label, confirmed, b"x" * first).encode(), 2)
    assert not role.caught_up
    role.link_data(Transfer(first, *label, confirmed, b"x" * (enough - first)).encode(), 2)
    assert role.caught_up


def test_of_what_a_java_master_held_it_needs_all_to_have_caught_up() -> None:
    role = slave(strict=False)
    linked(role)
    role.link_data(MasterHandshake(100, H((4, 0))).encode(), 1)
    role.link_data(Transfer(0, 4, 0, 60, b"x" * 99).encode(), 2)
    assert not role.caught_up
    role.link_data(Transfer(99, 4, 0, 60, b"x").encode(), 2)
    assert role.caught_up


def test_a_java_master_may_lag_behind_in_epochs() -> None:
    role = slave(strict=False)
    linked(role)
    assert "HandshakeResult" in kinds(role.link_data(MasterHandshake(0, H((2, 0))).encode(), 1))
    assert role.link_id == 5


def test_a_java_master_is_given_time_to_begin_its_epoch_and_then_taken_as_it_is() -> None:
    """Own bytes above 100 are of epoch 3, under which the Java master of epoch 4 perhaps wrote
    others.
    """
    role = SlaveRole(
        CONFIG,
        ReplicaLog(
            epochs=H((1, 0), (3, 100)), end_offset=300, min_offset=0, confirm_offset=0, epoch_seen=4
        ),
        broker_id=2,
        master_id=1,
        epoch=4,
        strict_epoch=False,
        ha_address=HaAddress("m:1"),
        now_ms=0,
        log_is_older=True,
    )
    reply = MasterHandshake(300, H((1, 0), (3, 100))).encode()
    linked(role)
    assert kinds(role.link_data(reply, 1)) == ["HandshakeResult", "CloseLink"]
    assert role.connect(6000) == [fx.ConnectHa("m:1")]
    role.link_opened(6, 6000)
    assert role.link_data(reply, 6001) == [fx.TruncateLog(100, 1, "diverged from the master")]
    role.truncated(True, 100, 6002)
    role.link_data(Transfer(100, 3, 100, 100, b"x" * 300).encode(), 6003)
    role.link_closed("reset", 6004)  # what this master sent is not cut again
    role.connect(7000)
    role.link_opened(7, 7000)
    assert "HandshakeResult" in kinds(
        role.link_data(MasterHandshake(400, H((1, 0), (3, 100))).encode(), 7001)
    )
    assert role.link_id == 7


def test_logs_that_cannot_be_joined_are_tried_again_rarely() -> None:
    role = slave(end=300, epochs=H((4, 100)))
    linked(role)
    effects = role.link_data(MasterHandshake(900, H((4, 200))).encode(), 1)
    assert kinds(effects) == ["HandshakeResult", "CloseLink"]
    assert role.connect(1999) == []
    assert role.connect(2001) == [fx.ConnectHa("m:1")]


def test_the_answer_to_a_cut_counts_even_when_the_link_is_gone() -> None:
    role = slave(end=300, epochs=H((1, 0), (3, 200)))
    linked(role)
    (cut,) = role.link_data(MasterHandshake(150, H((1, 0), (4, 150))).encode(), 1)
    assert cut == fx.TruncateLog(150, 1, "diverged from the master")
    role.link_closed("reset", 2)
    assert "LogTruncated" in kinds(role.truncated(True, 150, 3))


def test_garbage_from_the_master_closes_the_link_and_backs_off() -> None:
    role = slave()
    linked(role)
    (closed,) = role.link_data(b"\0\0\0\x09" + b"\0" * 60, 1)
    assert isinstance(closed, fx.CloseLink)
    assert role.connect(1) == [] and role.connect(21) == [fx.ConnectHa("m:1")]


def is_given_up_at(role: SlaveRole, opened_ms: int) -> int:
    """A link on which the master agrees and then says nothing: how long it is borne."""
    role.connect(opened_ms)
    role.link_opened(5, opened_ms)
    role.link_data(MasterHandshake(0, H((4, 0))).encode(), opened_ms)
    at_ms = opened_ms
    while role.link_id is not None:
        at_ms += 100
        role.tick(at_ms)
    return at_ms - opened_ms


def test_three_silent_heartbeats_of_its_master_end_a_link() -> None:
    assert is_given_up_at(slave(), 0) == 3000
    assert is_given_up_at(slave(strict=False), 0) == 15_000  # a Java master speaks every 5 s
    assert (
        is_given_up_at(slave(config=ReplicaConfig(file_bytes=1000, housekeeping_ms=2000)), 0)
        == 2000
    )


def test_a_master_that_is_there_at_once_after_a_silence_is_given_more_time() -> None:
    role = slave()
    assert [is_given_up_at(role, at) for at in (0, 10_000, 20_000, 40_000)] == [
        3000,
        6000,
        12_000,
        20_000,
    ]


def test_after_a_cut_the_next_link_is_not_borne_longer() -> None:
    role = slave()
    assert is_given_up_at(role, 0) == 3000
    role.connect(3100)
    role.connect_failed(4100)
    assert is_given_up_at(role, 10_000) == 3000
    role.connect(14_000)
    role.link_opened(6, 14_000)  # accepted, and nobody answers
    assert "CloseLink" in kinds(role.tick(17_000))
    assert is_given_up_at(role, 20_000) == 3000


def test_a_full_disk_is_tried_again_ever_more_seldom_until_bytes_fit() -> None:
    role, now_ms, pauses = slave(), 0, []
    for _ in range(5):
        linked_at(role, now_ms)
        assert "CloseLink" in kinds(role.disk_full("no room", now_ms)) and role.link_id is None
        began = now_ms
        while "ConnectHa" not in kinds(role.tick(now_ms)):
            now_ms += 100
        pauses.append(now_ms - began)
        role.connect_failed(now_ms)
        role._retry_at_ms = now_ms
    assert pauses == [500, 1000, 2000, 4000, 4000]
    linked_at(role, now_ms)
    role._log.append_raw(0, b"x")
    role.tick(now_ms)
    role.disk_full("no room", now_ms)
    assert role._retry_at_ms == now_ms + 500


def linked_at(role: SlaveRole, now_ms: int) -> None:
    role.connect(now_ms)
    role.link_opened(5, now_ms)


def test_caught_up_with_bytes_that_found_no_room_is_not_caught_up() -> None:
    role = slave(epochs=H((4, 0)))
    role.caught_up, role._caught_up_end = True, 100
    role._log.ends_at(99)
    role.disk_full("no room", 0)
    assert not role.caught_up
    role.caught_up = True
    role._log.append_raw(99, b"x")
    role.disk_full("no room", 0)
    assert role.caught_up


@pytest.mark.parametrize("member", [True, False])
def test_a_log_that_the_master_left_behind_is_emptied_unless_it_is_a_members(member: bool) -> None:
    role = slave(end=500, epochs=H((4, 0)))
    role._in_set = lambda: member
    linked(role)
    role.link_data(MasterHandshake(3000, H((4, 0))).encode(), 1)
    effects = role.link_data(Transfer(1000, 4, 0, 0).encode(), 2)
    assert (fx.TruncateLog(0, -1, MASTER_BEGINS_LATER) in effects) is not member
    if member:
        assert "CloseLink" in kinds(effects) and role.link_id is None
    else:
        told = [
            item.fields
            for item in role.truncated(True, 0, 3)
            if isinstance(item, fx.ReportEvent) and item.kind == "LogTruncated"
        ]
        assert told == [
            {"from_offset": 500, "to_offset": 0, "epoch": -1, "reason": MASTER_BEGINS_LATER}
        ]
