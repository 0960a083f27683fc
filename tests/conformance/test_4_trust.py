"""Design section 4, S14 to S20: who is trusted after a loss, and what a set keeps. As
test_4_safety: one test for each rule, and it fails once the rule is broken on purpose. Most of
these breaks were defects of an earlier release.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.replica.admission import Admission
from brokers.service.tables.dropped_queues import DroppedQueues
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.topics import TopicConfig
from brokers.store.log import patch as log_patch
from brokers.store.log.integrity import Place
from brokers.store.queues.queue_ends import QueueEnds
from processors.fold import candidates as elect_candidates
from processors.fold import decide_elect, decide_replicas, decide_sync_set, elect
from tests.support.broken_on_purpose import Bug, Patch, Rule, cases, is_seen, name_of
from tests.support.client_service import Desk
from tests.support.control_history import History, seen, with_master
from tests.unit.brokers.store.log_samples import NOW_MS, fill, message, open_queues, small_store

SILENT = {"alive": False, "reason": "heartbeat_expired"}


# -- the rules -------------------------------------------------------------------------------------


async def test_s14_who_was_left_out_below_the_minimum_leads_without_risk_and_all_are_waited_for(
    tmp_path: Path,
) -> None:
    history = left_out()
    assert history.set.remembered == (1,)
    lost_its_power(history, 2)
    assert not history.elect(
        -1, seen(1, **SILENT), seen(2, incarnation="i2-again"), seen(3, **SILENT)
    ).accepted
    outcome = history.elect(-1, seen(1), seen(2, incarnation="i2-again"), seen(3, **SILENT))
    assert (history.set.master_broker_id, outcome.labels) == (1, ("REMEMBERED",))


async def test_s15_what_an_id_showed_binds_its_next_start(tmp_path: Path) -> None:
    history = with_master(1, 2)
    history.alter((1, 2, 3), *(seen(one, offset=5_000) for one in (1, 2, 3)))
    history.register(2, "i2-again", last_epoch=1, end_offset=4_999)
    assert (history.set.sync_state_set, history.set.unclean_members) == ((1, 3), (2,))
    # its identity alone was put on a new disk
    history.register(3, "i3-again", last_epoch=-1, end_offset=0)
    assert history.set.sync_state_set == (1,)


async def test_s16_who_is_not_heard_blocks_no_change_and_strangers_get_no_link(
    tmp_path: Path,
) -> None:
    history = with_master(1, 2, 3)
    assert history.alter((1, 2), seen(1), seen(2, **SILENT), seen(3)).accepted
    assert (
        history.alter((1, 2, 3), seen(1), seen(2), seen(3, **SILENT)).refusal == "REPLICA_NOT_ALIVE"
    )
    admission = Admission()
    admission.learn({1: "10.0.0.1:10911", 2: "10.0.0.2:10911"})
    assert admission.refusal(2, "10.0.0.2:5000", (1,)) is None
    assert admission.refusal(7, "10.0.0.7:5000", (1,)) == "no replica 7 is registered in this set"


async def test_s17_a_repair_writes_only_what_a_checksum_proves_at_its_place(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for number in range(2):
        store.put(message(body=b"%d" % number), NOW_MS)
    size = store.log_end // 2
    first, second = store.read_log(0, size), store.read_log(size, size)
    for data in (first, second[:-1] + b"?", second[:-1]):
        assert log_patch.patch(store.log, Place(size, size), data, store.log_end) is None
    # not confirmed
    assert log_patch.patch(store.log, Place(size, size), second, store.log_end - 1) is None
    assert store.read_log(size, size) == second


async def test_s18_an_epoch_far_from_all_that_is_known_is_not_believed(tmp_path: Path) -> None:
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, **SILENT), seen(2, epoch=1 << 60), seen(3))
    assert history.set.master_epoch == 2 and history.set.highest_epoch_seen < 1_000
    assert history.register(3, "i3-again", last_epoch=1 << 60).refusal == "INVALID_REGISTRATION"


async def test_s19_deleted_topics_stay_deleted_and_an_empty_table_replaces_none(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        for desk in (master, slave):  # the log is the same on both
            for topic in ("D", "S"):
                desk.store.put(message(topic=topic, queue_id=3), NOW_MS)
        await master.changes.put([TopicConfig(name, 4, 4) for name in ("D", "S")])
        slave.service.confirmed(slave.store.log_end)
        assert (await master.ask(RemotingCommand.request(215, {"topic": "D"}))).code == 0
        fewer = {
            "topic": "S",
            "readQueueNums": "2",
            "writeQueueNums": "2",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
        }
        assert (await master.ask(RemotingCommand.request(17, fewer))).code == 0
        slave.tables.offsets.commit("g", "S", 0, 1_000, 1)
    async with Desk(tmp_path / "s") as leads, Desk(tmp_path / "new") as empty:
        leads.lead(2)
        assert leads.tables.topics.get("D") is None and leads.tables.topics.configs["S"].queues == 2
        leads.tables.offsets.commit("g", "S", 0, 1_000, 1)
        empty.lead(3)
        leads.follow(empty.address, 3)
        await leads.shared.sync.copy_from(empty.address, 3)
        assert leads.tables.offsets.query("g", "S", 0) == 1_000


async def test_s20_a_queue_whose_messages_are_gone_goes_on_where_it_was(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    store.close()
    queues, ends = open_queues(tmp_path / "others"), QueueEnds(tmp_path)
    ends.settle(queues, 0)
    queue = queues.get("T", 0)
    assert queue is not None and queue.max_offset == 3
    fill(queues, range(3, 5))
    ends.note(queues, {("T", 0): 2})
    assert queue.max_offset == 5  # and never goes down


# -- the same, broken ------------------------------------------------------------------------------


def elections_forget(patch: Patch) -> None:
    patch.setattr(elect, "_sound_remembered", lambda broker_set, candidates: [])


def nobody_is_waited_for(patch: Patch) -> None:
    patch.setattr(
        elect, "awaited_of", lambda broker_set, candidates, remembers: broker_set.unclean_members
    )
    patch.setattr(elect, "_sound_remembered", lambda broker_set, candidates: [])


def a_log_that_went_back_is_trusted(patch: Patch) -> None:
    patch.setattr(decide_replicas, "_went_back", lambda *args: False)


def members_have_to_be_heard(patch: Patch) -> None:
    asked = decide_sync_set._unfit_member
    patch.setattr(
        decide_sync_set,
        "_unfit_member",
        lambda wanted, candidates, members_too: asked(wanted, candidates, members_too=True),
    )


def strangers_are_answered(patch: Patch) -> None:
    patch.setattr(Admission, "is_known", lambda *args: True)


def any_bytes_repair(patch: Patch) -> None:
    patch.setattr(log_patch, "problem", lambda data, place: None)


def every_epoch_is_believed(patch: Patch) -> None:
    for module in (elect_candidates, decide_elect, decide_replicas):
        patch.setattr(module, "reach", lambda broker_set, rules, limit: limit)


def the_log_brings_topics_back(patch: Patch) -> None:
    patch.setattr(DroppedQueues, "covers", lambda self, topic, queue_id: False)


def an_empty_table_is_taken(patch: Patch) -> None:
    def as_it_is(self: ConsumerOffsets, other: ConsumerOffsets) -> bool:
        self.__dict__.update(other.__dict__)
        return True

    patch.setattr(ConsumerOffsets, "adopt", as_it_is)


def ends_are_not_kept(patch: Patch) -> None:
    patch.setattr(QueueEnds, "settle", lambda self, queues, log_end: None)


BROKEN: dict[Rule, tuple[Bug, ...]] = {
    test_s14_who_was_left_out_below_the_minimum_leads_without_risk_and_all_are_waited_for: (
        elections_forget,
        nobody_is_waited_for,
    ),
    test_s15_what_an_id_showed_binds_its_next_start: (a_log_that_went_back_is_trusted,),
    test_s16_who_is_not_heard_blocks_no_change_and_strangers_get_no_link: (
        members_have_to_be_heard,
        strangers_are_answered,
    ),
    test_s17_a_repair_writes_only_what_a_checksum_proves_at_its_place: (any_bytes_repair,),
    test_s18_an_epoch_far_from_all_that_is_known_is_not_believed: (every_epoch_is_believed,),
    test_s19_deleted_topics_stay_deleted_and_an_empty_table_replaces_none: (
        the_log_brings_topics_back,
        an_empty_table_is_taken,
    ),
    test_s20_a_queue_whose_messages_are_gone_goes_on_where_it_was: (ends_are_not_kept,),
}


@pytest.mark.parametrize(("rule", "bug"), cases(BROKEN))
async def test_a_rule_that_is_broken_on_purpose_is_seen(
    rule: Rule, bug: Bug, tmp_path: Path
) -> None:
    await is_seen(rule, bug, tmp_path)


def test_every_later_rule_is_here() -> None:
    assert {name_of(rule) for rule in BROKEN} == {f"s{number}" for number in range(14, 21)}


def left_out() -> History:
    """Broker 1 led (1, 2), which is as few as may acknowledge, and fell silent: 2 was elected
    alone, 1 is remembered.
    """
    history = with_master(1, 2)
    for broker_id in (1, 2, 3):
        history.register(broker_id, min_in_sync=2)
    assert history.elect(-1, seen(1, **SILENT), seen(2), seen(3)).accepted
    return history


def lost_its_power(history: History, broker_id: int) -> None:
    history.register(broker_id, f"i{broker_id}-again", clean=False)
