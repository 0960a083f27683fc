"""A master and a slave of a set without controllers, as pure cores joined by a link."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.default_frames import header, heartbeat, report
from brokers.ha.epochs import EpochHistory
from brokers.replica import effects as fx
from brokers.replica.fixed.ack_rule import FixedAckRule
from brokers.replica.fixed.config import FixedConfig
from brokers.replica.fixed.core import FixedCore
from brokers.replica.fixed.master_role import REFUSED_MAX, FixedMaster
from brokers.replica.fixed.slave_role import FixedSlave
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice
from tests.support.fixed_pair import FILE_BYTES, RECORD_BYTES, WORD, Pair, config, core


def text(*records: int) -> bytes:
    """Records that are told apart by their numbers."""
    return b"".join(b"%09d;" % number for number in records)


def begun(broker_id: int, log: bytes = b"", **changes: object) -> tuple[FixedCore, list[fx.Effect]]:
    one = core(config(**changes), broker_id, log)
    assert one.role is Role.FENCED
    return one, one.tick(0)


# -- roles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("broker_id", "role"), [(0, "MASTER"), (1, "SLAVE"), (7, "SLAVE")])
def test_the_configuration_gives_the_role_and_no_epoch_is_written(
    broker_id: int, role: str
) -> None:
    one, effects = begun(broker_id, text(1))
    told = [effect for effect in effects if isinstance(effect, fx.RoleChanged)]
    assert [(change.role, change.master_epoch, change.master_id) for change in told] == [
        (role, 0, 0)
    ]
    assert not any(isinstance(effect, fx.WriteEpochs) for effect in effects)
    assert one.is_master == (role == "MASTER") and not one.epochs


def test_no_controller_has_a_say() -> None:
    one, _ = begun(0)
    notice = RoleNotice(2, "x:1", "x:2", 5, (2,), 1)
    assert one.on_role_notice(notice, 1) == [] and one.role is Role.MASTER


def test_what_a_master_has_may_be_read_before_anybody_else_has_it() -> None:
    pair = Pair(b"", b"")
    pair.put(text(1))
    assert (pair.master.readable, pair.master.acknowledged) == (10, 0)
    assert pair.master.core.write_refusal() is None


def test_a_slave_is_told_where_its_master_is_and_a_configured_address_stays() -> None:
    one, _ = begun(1, ha_master_address="fixed:9")
    effects = one.ha_address_told("m:1", "m:2", WORD, 1)
    assert fx.ConnectHa("m:2") not in effects
    assert [e.master_address for e in effects if isinstance(e, fx.RoleChanged)] == ["m:1"]
    other, _ = begun(1)
    assert fx.ConnectHa("m:2") in other.ha_address_told("m:1", "m:2", WORD, 1)


def test_a_slave_without_an_address_asks_for_it_again_and_again() -> None:
    one, effects = begun(1)
    assert fx.AskHaAddress("") in effects
    assert one.tick(25) == []
    assert one.tick(config().ask_ha_address_ms) == [fx.AskHaAddress("")]


# -- the stream -----------------------------------------------------------------------------------


def test_a_slave_copies_and_a_send_is_acknowledged_when_it_has_it() -> None:
    pair = Pair(text(1, 2), b"")
    pair.run(5)
    assert pair.slave.log == pair.master.log == text(1, 2) and pair.master.acknowledged == 20
    pair.put(text(3))
    pair.run(3)
    assert pair.slave.log == text(1, 2, 3) and pair.slave.readable == 30
    assert pair.master.acknowledged == 30


def test_an_asynchronous_master_acknowledges_at_once() -> None:
    pair = Pair(b"", b"", ack_rule=FixedAckRule(waits=False))
    pair.put(text(1))
    assert pair.master.acknowledged == 10


def test_an_empty_slave_begins_with_the_masters_last_file() -> None:
    one, _ = begun(0, bytes(2 * FILE_BYTES + 5))
    one.link_opened(1, outbound=False, now_ms=1)
    sent = [e for e in one.link_data(1, report(0), 1) if isinstance(e, fx.SendRange)]
    assert (sent[0].offset, sent[0].count) == (2 * FILE_BYTES, 5)


@pytest.mark.parametrize("end", ["master", "slave"])
def test_both_ends_drop_a_link_after_the_idle_limit(end: str) -> None:
    one, _ = begun(0 if end == "master" else 1, text(1))
    if end == "slave":
        one.ha_address_told("m:1", "m:2", WORD, 0)
    one.link_opened(1, outbound=end == "slave", now_ms=0)
    one.link_data(1, report(10) if end == "master" else b"", 0)
    for now_ms in range(100, 19_999, 100):
        assert not any(isinstance(e, fx.CloseLink) for e in one.tick(now_ms)), now_ms
    closed = [e for now in (20_000, 20_100) for e in one.tick(now) if isinstance(e, fx.CloseLink)]
    assert len(closed) == 1 and "nothing read" in closed[0].reason


def test_a_pause_of_this_process_is_not_the_peers_silence() -> None:
    one, _ = begun(0, text(1))
    one.link_opened(1, outbound=False, now_ms=0)
    one.link_data(1, report(10), 0)
    one.tick(100)
    assert not any(isinstance(effect, fx.CloseLink) for effect in one.tick(60_000))


@pytest.mark.parametrize("data", [b"\xff" * 8, report(11)])
def test_a_master_closes_on_what_no_slave_sends(data: bytes) -> None:
    one, _ = begun(0, text(1))
    one.link_opened(1, outbound=False, now_ms=0)
    effects = one.link_data(1, data, 1)
    assert isinstance(effects[-1], fx.CloseLink)
    assert one.ha_status(str, 1).slaves == ()


def test_a_slave_closes_on_a_push_that_does_not_go_on_where_its_log_ends() -> None:
    one, _ = begun(1)
    one.ha_address_told("m:1", "m:2", WORD, 0)
    one.link_opened(1, outbound=True, now_ms=0)
    one.link_data(1, heartbeat(0), 1)
    effects = one.link_data(1, heartbeat(0)[:8] + b"\x00\x00\x00\x01" + b"x" + heartbeat(0), 1)
    assert any(isinstance(effect, fx.CloseLink) for effect in effects)


def test_links_are_bounded_and_who_says_nothing_goes_first() -> None:
    one, _ = begun(0, text(1), links_max=2)
    one.link_opened(1, outbound=False, now_ms=0, peer="a:1")
    one.link_data(1, report(10), 0)
    one.link_opened(2, outbound=False, now_ms=0, peer="b:1")
    assert one.link_opened(3, outbound=False, now_ms=0, peer="a:2")[0].link_id == 2
    one.link_data(3, report(10), 0)
    assert one.link_opened(4, outbound=False, now_ms=0, peer="c:1")[0].link_id == 4
    assert len(one.ha_status(str, 0).slaves) == 2


def test_a_lost_link_is_made_again_after_a_pause_that_grows_to_a_limit() -> None:
    one, _ = begun(1)
    one.ha_address_told("m:1", "m:2", WORD, 0)
    tries, now_ms = [], 0
    for _ in range(600):
        one_try = [e for e in one.tick(now_ms) if isinstance(e, fx.ConnectHa)]
        if one_try or not tries:
            tries.append(now_ms)
            one.connect_failed(now_ms)
        now_ms += 25
    pauses = [b - a for a, b in itertools.pairwise(tries)]
    assert pauses[0] <= 100 and max(pauses) == config().reconnect_max_ms


@pytest.mark.parametrize("log", [b"", text(1, 2)])
def test_whoever_sends_what_no_master_sends_is_tried_less_often_and_told_of(log: bytes) -> None:
    """As behind the address of a replica of a set with controllers."""
    one, _ = begun(1, log, ha_master_address="m:2")
    tries: list[int] = []
    events: list[fx.ReportEvent] = []
    for now_ms in range(0, 20_000, 25):
        effects = one.tick(now_ms)
        if not tries or any(isinstance(effect, fx.ConnectHa) for effect in effects):
            tries.append(now_ms)
            effects += one.link_opened(len(tries), outbound=True, now_ms=now_ms)
            effects += one.link_data(len(tries), header(0, 1 << 30), now_ms)
        events += [effect for effect in effects if isinstance(effect, fx.ReportEvent)]
    assert len(tries) < 20 and tries[-1] - tries[-2] >= config().reconnect_max_ms
    told = {one.kind for one in events if one.kind != "RoleChanged"}
    reasons = {one.fields["reason"] for one in events if one.kind == "HandshakeResult"}
    assert told == {"HandshakeResult"} and len(reasons) == 1
    assert "m:2" in str(reasons)


def test_an_address_at_which_nobody_speaks_is_told_of() -> None:
    one, _ = begun(1, ha_master_address="m:2")
    one.link_opened(1, outbound=True, now_ms=0)
    said = [
        str(effect.fields["reason"])
        for now_ms in range(0, 25_000, 250)
        for effect in one.tick(now_ms)
        if isinstance(effect, fx.ReportEvent) and effect.kind == "HandshakeResult"
    ]
    assert len(said) == 1 and "m:2" in said[0]


# -- logs that went different ways ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("master", "slave", "common"),
    [
        (range(1, 60), [*range(1, 51), 91, 92], 50),  # other bytes behind the common part
        (range(1, 50), [*range(1, 50), 91], 49),  # the master's log ends where the slave's goes on
        (range(1, 50), [*range(1, 40), *range(80, 110)], 39),  # beyond what is looked at first
    ],
)
def test_a_slave_is_cut_to_what_both_have_and_keeps_what_it_cuts(
    master: range, slave: list[int], common: int
) -> None:
    pair = Pair(text(*master), text(*slave))
    pair.run()
    assert pair.slave.log == pair.master.log == text(*master)
    assert pair.slave.cut == [text(*slave[common:])]


@pytest.mark.parametrize(
    ("master", "slave"),
    [
        ([], range(1, 50)),  # a master that lost its disk
        (range(500, 600), range(1, 100)),  # the master of another set
        (range(1, 20), range(1, 200)),  # more than a slave cuts by itself
    ],
)
def test_a_slave_that_has_too_little_in_common_follows_no_more_and_cuts_nothing(
    master: range, slave: range
) -> None:
    pair = Pair(text(*master), text(*slave))
    pair.run(600)
    assert pair.slave.log == text(*slave) and not pair.slave.cut
    failed = [one for one in pair.slave.events if one.kind == "HandshakeResult"]
    assert all(not one.fields["ok"] for one in failed)
    assert pair.master.log == text(*master)


def test_zeros_in_front_of_a_files_end_tell_no_histories_apart() -> None:
    """A message that did not fit leaves as many in both."""
    gap = bytes(12 * RECORD_BYTES)
    pair = Pair(text(*range(1, 51)) + gap + text(51), text(*range(1, 50), 99) + gap)
    pair.run()
    assert pair.slave.log == pair.master.log
    assert pair.slave.cut == [text(99) + gap]


@pytest.mark.parametrize(
    ("begin", "slave", "follows"),
    [
        (480, range(1, 51), True),  # of what is looked at first, the master has a half
        (480, [*range(1, 50), 99], True),  # and the slave has other bytes there
        (480, [*range(1, 47), *range(96, 100)], False),  # nothing in common from there on
        (520, range(1, 51), False),  # all that the slave has is gone there
        (500, range(1, 51), False),
    ],
)
def test_a_master_that_deleted_old_files_says_where_its_log_begins(
    begin: int, slave: range | list[int], follows: bool
) -> None:
    pair = Pair(text(*range(1, 60)), text(*slave))
    pair.master.perform(pair.master.core.log_trimmed(begin, pair.now_ms), pair.now_ms)
    pair.run(600)
    if follows:
        assert pair.slave.log == pair.master.log
        return
    assert pair.slave.log == text(*slave) and not pair.slave.cut
    reason = str(pair.slave.events[-1].fields["reason"])
    assert "follows no more" in reason and "empty store folder" in reason


def test_a_slave_whose_log_cannot_be_read_is_no_copy() -> None:
    pair = Pair(text(1), b"")
    pair.run(5)
    slave = pair.slave.core
    assert pair.master.acknowledged == RECORD_BYTES
    said = slave.log_stuck(0, "a record that is none", pair.now_ms)
    pair.slave.perform(said, pair.now_ms)
    pair.put(text(2))
    told = []
    for _ in range(200):
        pair.run(1, ms=25)
        told += slave.log_stuck(0, "a record that is none", pair.now_ms)
    assert not told and not pair.slave.linked and pair.master.acknowledged == RECORD_BYTES
    reason = str(pair.slave.events[-1].fields["reason"])
    assert "cannot be read from 0" in reason and "commit_log_file_bytes" in reason
    pair.run(100)  # it was cut, or read again
    assert pair.slave.log == pair.master.log


def test_a_java_slave_that_was_refused_for_its_longer_log_is_refused_when_this_one_grew() -> None:
    """It goes on wherever its log ends, and would do so in the middle of other bytes."""
    one, _ = begun(0, text(1))
    for link_id, end in ((1, 10), (2, 40)):
        one.log_grew(end, link_id)
        one.link_opened(link_id, outbound=False, now_ms=link_id, peer="j:5")
        effects = one.link_data(link_id, report(30), link_id)
        assert isinstance(effects[-1], fx.CloseLink)
        told = [effect.data for effect in effects if isinstance(effect, fx.SendBytes)]
        assert told == ([heartbeat(10)] if link_id == 1 else [])  # a Java slave closes upon it
    one.link_opened(3, outbound=False, now_ms=3, peer="j:6")
    assert not any(isinstance(e, fx.CloseLink) for e in one.link_data(3, report(20), 3))


@settings(deadline=None, max_examples=25)
@given(
    common=st.integers(0, 60),
    ahead=st.integers(0, 30),
    behind=st.integers(0, 30),
    partial=st.integers(0, RECORD_BYTES - 1),
    piece=st.sampled_from([5, 12, 64, 700]),
    check=st.integers(1, 200),
)
def test_whatever_both_have_a_following_slave_has_the_masters_bytes(
    common: int, ahead: int, behind: int, partial: int, piece: int, check: int
) -> None:
    master = text(*range(common), *range(1_000, 1_000 + ahead))
    slave = text(*range(common), *range(2_000, 2_000 + behind))
    slave = slave[: len(slave) - partial] if partial and behind else slave
    pair = Pair(master, slave, check_bytes=check)
    pair.run(60, ms=1_000, piece=piece)
    pair.put(text(9))
    pair.run(3, piece=piece)
    if pair.master.acknowledged == len(pair.master.log):
        assert pair.slave.log == pair.master.log
    else:  # it follows no more: nothing was cut beyond the limit, and nothing was added
        assert bytes(pair.slave.log) == slave[: len(pair.slave.log)]


# -- the disk -------------------------------------------------------------------------------------


def test_a_disk_that_fails_ends_every_promise() -> None:
    pair = Pair(b"", b"")
    pair.run(3)
    pair.put(text(1))
    effects = pair.master.core.storage_failed("broken", 10, pair.now_ms)
    assert any(isinstance(effect, fx.AbortWaiters) for effect in effects)
    assert pair.master.core.role is Role.FENCED and pair.master.core.write_refusal()
    assert pair.master.core.tick(pair.now_ms + 25) == []


def test_a_slave_without_room_parts_from_its_master_and_comes_back() -> None:
    pair = Pair(text(1), b"")
    pair.run(3)
    effects = pair.slave.core.storage_full("full", 10, pair.now_ms)
    assert any(isinstance(effect, fx.CloseLink) for effect in effects)
    pair.slave.perform(effects, pair.now_ms)
    pair._part()
    pair.run(100)
    assert pair.slave.linked


def test_an_unclean_slave_copies_again_what_may_be_torn_and_an_unclean_master_leads() -> None:
    one = FixedCore(config(), broker_id=1, incarnation="i", clean=False, log_end=50, trusted_end=20)
    assert one.tick(0)[0] == fx.TruncateLog(20, 0, "what a loss of power may have torn")
    one.truncated(True, 20, 0)
    assert not one.clean and one.tick(25) and one.role is Role.SLAVE and one.log_end == 20
    master = FixedCore(
        config(), broker_id=0, incarnation="i", clean=False, log_end=50, trusted_end=20
    )
    master.tick(0)
    assert master.is_master and master.log_end == 50 and master.clean


# -- the roles by themselves ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "window", "reported"),
    [
        (0, 0, 40, 0),  # empty: the master's last file
        (0, 30, 40, 1),  # never 0, which would ask for that file
        (0, 100, 40, 60),
        (80, 100, 40, 80),
        (100, 100, 40, 100),  # all files are gone: nothing to compare
    ],
)
def test_from_where_a_slave_compares(begin: int, end: int, window: int, reported: int) -> None:
    log = ReplicaLog(
        epochs=EpochHistory(), end_offset=end, min_offset=begin, confirm_offset=end, epoch_seen=0
    )
    slave = FixedSlave(config(check_bytes=window), log, 0)
    slave.told("m:1", "m:2", 0)
    sent = [e.data for e in slave.link_opened(1, 0) if isinstance(e, fx.SendBytes)]
    assert sent == [report(reported)]


def test_a_master_forgets_the_oldest_of_too_many_ends_that_it_refused() -> None:
    log = ReplicaLog(
        epochs=EpochHistory(), end_offset=10, min_offset=0, confirm_offset=10, epoch_seen=0
    )
    master = FixedMaster(config(), log)
    for number in range(REFUSED_MAX + 1):
        master.link_opened(number, 0, f"h{number}:1")
        master.link_data(number, report(500), 0)
    master.log_grew(1_000, 0)
    effects: list[fx.Effect] = []
    for number in (0, 1):
        master.link_opened(number, 0, f"h{number}:2")
        effects += master.link_data(number, report(500), 0)
    assert [one.link_id for one in effects if isinstance(one, fx.CloseLink)] == [1]


def test_what_a_master_refused_it_refuses_behind_a_restart() -> None:
    def reported(one: FixedCore, end: int) -> list[fx.Effect]:
        one.link_opened(1, outbound=False, now_ms=1, peer="j:5")
        return one.link_data(1, report(end), 1)

    before, _ = begun(0, text(1))
    effects = reported(before, 30)
    assert [type(one) for one in effects][-2:] == [fx.KeepRefused, fx.CloseLink], "kept first"
    (kept,) = [one.ends for one in effects if isinstance(one, fx.KeepRefused)]
    assert kept == (("j", 30),)
    assert not any(isinstance(one, fx.KeepRefused) for one in reported(before, 30)), "known"

    def after() -> FixedCore:
        log = text(*range(5))
        one = FixedCore(
            config(), broker_id=0, incarnation="i", clean=True, log_end=len(log), refused=kept
        )
        one.tick(0)
        return one

    assert isinstance(reported(after(), 30)[-1], fx.CloseLink)
    right = reported(after(), 20)
    assert [one.ends for one in right if isinstance(one, fx.KeepRefused)] == [()]
    assert not any(isinstance(one, fx.CloseLink) for one in right)


def half_open(peers: tuple[str, ...], heard: tuple[int, ...]) -> int:
    """What a master that needs two slaves answers. `peers`: of links that are opened a second after
    one another and report all; `heard`: links that say so again, 10 s later.
    """
    one, _ = begun(0, text(1), ack_rule=FixedAckRule(in_sync=3))
    for link_id, peer in enumerate(peers):
        one.link_opened(link_id, outbound=False, now_ms=1_000 * link_id, peer=peer)
        one.link_data(link_id, report(10), 1_000 * link_id)
    for link_id in heard:
        one.link_data(link_id, report(10), 10_000)
    return one.acknowledged_offset


@pytest.mark.parametrize(
    ("peers", "heard", "acknowledged"),
    [
        (("a:1", "b:1"), (), 10),
        (("a:1", "a:2"), (), 0),
        (("a:1", "a:2"), (1,), 0),
        (("a:1", "a:2"), (0,), 10),
        (("a:1", "a:2", "b:1"), (), 10),
    ],
    ids=["two hosts", "one slave twice", "the new link", "two slaves of one host", "and another"],
)
def test_a_link_that_says_nothing_since_another_one_of_its_host_came_counts_not(
    peers: tuple[str, ...], heard: tuple[int, ...], acknowledged: int
) -> None:
    assert half_open(peers, heard) == acknowledged


def test_a_link_that_never_reported_takes_nothing_from_another_one_of_its_host() -> None:
    one, _ = begun(0, text(1))
    one.link_opened(1, outbound=False, now_ms=1, peer="a:1")
    one.link_opened(2, outbound=False, now_ms=5_000, peer="a:2")
    one.link_data(1, report(10), 5_000)
    assert one.acknowledged_offset == 10


def test_equal_bytes_in_the_middle_of_a_record_prove_nothing() -> None:
    """Two histories end with the same large body: what lies in front of it differs."""
    body = b"b" * 200

    def proof(data: bytes, offset: int) -> bool:
        return b"head" in data

    pair = Pair(text(*range(5)) + b"head-one;;" + body, text(*range(5)) + b"head-two;;" + body,
                proof=proof)  # fmt: skip
    pair.run(60, ms=1_000)
    assert pair.slave.log == pair.master.log and pair.slave.cut
    same = Pair(text(*range(5)) + b"head-one;;" + body, text(*range(5)) + b"head-one;;" + body,
                proof=proof)  # fmt: skip
    same.run(60, ms=1_000)
    assert same.links == 2 and same.master.acknowledged == len(same.master.log)
    assert not same.slave.cut


def test_the_limits_of_a_link_are_those_of_the_replica() -> None:
    limits = FixedConfig(file_bytes=5, ha_heartbeat_ms=6, ha_flow_bytes_per_s=7).link_limits()
    assert (limits.file_bytes, limits.heartbeat_ms, limits.flow_bytes_per_s) == (5, 6, 7)
    assert limits.housekeeping_ms == 20_000
