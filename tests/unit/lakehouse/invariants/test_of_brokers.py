"""Each invariant between elections and brokers: what fits breaks nothing, in any order of the
topics; what does not is found.
"""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from events.broker_events import (
    BrokerEventHeader,
    EpochAppended,
    FirstMessageAcknowledged,
    LogTrimmed,
    LogTruncated,
    RoleChanged,
)
from events.changes import BrokerRegistered, MasterElected
from events.outcomes import Outcome
from lakehouse.invariants.invariants import BY_NAME, OF_BROKERS, judge
from lakehouse.invariants.rows import Decided, Reported, Row
from tests.support.control_history import NAME
from tests.support.judged_history import (
    Voices,
    altered,
    at_change,
    decided,
    imported_history,
    sound_history,
    sound_voices,
)
from tests.support.replica_world import Node, World

SOUND = decided(sound_history().records)
IMPORTED = decided(imported_history().records)
MASTERS = "one_master_per_epoch"
FILES = "epoch_files_agree_with_elections"
CUTS = "truncations_agree_with_elections"
HEARD = {
    kind.__name__: kind
    for kind in (RoleChanged, EpochAppended, FirstMessageAcknowledged, LogTruncated)
}
ACKS = "no_acknowledgement_after_the_successor_began"

BROKEN = [
    (MASTERS, sound_voices().leads(3, 2), "broker 3 leads epoch 2, its elected master is 2"),
    (
        MASTERS,
        sound_voices().follows(3, 2, 1),
        "broker 3 follows 1 in epoch 2, its elected master is 2",
    ),
    (FILES, sound_voices().wrote(1, 2, 950), "start 950, another start 900 was told before"),
    (FILES, sound_voices().wrote(1, 2, 850), "start 850, another start 900 was told before"),
    (CUTS, sound_voices().cut(2, 1300, 1000, 2), "broker 2 cut its log while it led epoch 2"),
    (CUTS, sound_voices().cut(1, 900, 1000, 1), "cut its log from 900 up to 1000"),
    (
        CUTS,
        sound_voices().cut(3, 1300, 800, 2),
        "cut its log to 800, the end is of epoch 2, which starts at 900",
    ),
    (
        ACKS,
        sound_voices().acknowledged(1, 1, 500),
        "broker 1 acknowledged in epoch 1 after it knew 2",
    ),
    (
        ACKS,
        sound_voices().acknowledged(3, 2, 950),
        "broker 3 acknowledged in epoch 2, its master is 2",
    ),
]


def found_in(name: str, rows: list[Row]) -> list[str]:
    return [one.said for one in judge(rows, invariants=(BY_NAME[name],))[1]]


@pytest.mark.parametrize("name", [invariant.name for invariant in OF_BROKERS])
def test_sound_histories_keep_it_in_whatever_order_the_topics_land(name: str) -> None:
    said = sound_voices().rows
    between = at_change(SOUND, MasterElected, 1)
    for rows in (
        [*SOUND, *said],
        [*said, *SOUND],
        [*SOUND[:between], *said, *SOUND[between:]],
        [*said],
        [*IMPORTED],
    ):
        assert found_in(name, rows) == []


@pytest.mark.parametrize(
    ("name", "voices", "said"), BROKEN, ids=[f"{one[0]}-{one[2][:40]}" for one in BROKEN]
)
def test_a_word_that_does_not_fit_is_found_at_its_offset(
    name: str, voices: Voices, said: str
) -> None:
    for rows in ([*SOUND, *voices.rows], [*voices.rows, *SOUND]):
        found = judge(rows, invariants=(BY_NAME[name],))[1]
        assert [said in one.said for one in found] == [True], found
        assert (found[0].topic, found[0].partition, found[0].offset) == (
            "regent.broker-events",
            0,
            len(voices.rows) - 1,
        )


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert {name for name, _, _ in BROKEN} == {invariant.name for invariant in OF_BROKERS}


@pytest.mark.parametrize("lost", range(len(sound_voices().rows)))
def test_an_event_that_was_lost_is_no_breach(lost: int) -> None:
    said = sound_voices().rows
    assert judge([*SOUND, *said[:lost], *said[lost + 1 :]])[1] == []


def test_two_masters_of_one_epoch_by_the_elections() -> None:
    index = at_change(SOUND, MasterElected, 1)
    [example] = judge(
        altered(SOUND, index, MasterElected, master_epoch=1), invariants=(BY_NAME[MASTERS],)
    )[1]
    assert (example.topic, example.offset, example.said) == (
        "regent.commands",
        index,
        "epoch 1 has masters 1 and 2",
    )


def test_an_epoch_between_two_elections_that_none_began() -> None:
    index = at_change(SOUND, MasterElected, 1)
    rows = altered(
        altered(SOUND, index, MasterElected, master_epoch=5),
        at_change(SOUND, MasterElected, 2),
        MasterElected,
        master_epoch=6,
    )
    said = Voices().leads(3, 3).wrote(3, 4, 950).cut(1, 1100, 900, 4).rows
    assert found_in(MASTERS, [*rows, *said]) == ["broker 3 leads epoch 3, which no election began"]
    assert found_in(FILES, [*rows, *said]) == ["broker 3 wrote epoch 4, which no election began"]
    assert found_in(CUTS, [*rows, *said]) == [
        "broker 1 cut its log to 900, the end is of epoch 4, which no election began"
    ]


def test_an_acknowledgement_beyond_the_start_of_the_successor_is_found() -> None:
    acknowledged = Voices().acknowledged(1, 1, 901).wrote(2, 2, 900).rows
    began = Voices().wrote(2, 2, 900).acknowledged(1, 1, 901).rows
    for said in (acknowledged, began):
        [example] = judge([*SOUND, *said], invariants=(BY_NAME[ACKS],))[1]
        assert (
            "broker 1 acknowledged up to 901 in epoch 1, epoch 2 of broker 2 begins at 900"
        ) in example.said
        assert example.offset == (0 if said is acknowledged else 1)
    assert found_in(ACKS, [*SOUND, *Voices().acknowledged(1, 1, 900).wrote(2, 2, 900).rows]) == []


def test_an_election_that_says_that_it_may_lose_messages_is_left_out() -> None:
    """Epoch 3 was designated; and what a later one lacks may have been lost there."""
    assert found_in(ACKS, [*SOUND, *Voices().acknowledged(2, 2, 1300).wrote(3, 3, 1000).rows]) == []
    assert found_in(ACKS, [*SOUND, *Voices().wrote(3, 3, 1000).acknowledged(1, 1, 1300).rows]) == []


def test_a_slave_may_tell_a_later_start_when_old_files_were_deleted() -> None:
    said = sound_voices().wrote(1, 2, 950).rows
    trimmed = replace(said[0], event=LogTrimmed(said[0].event.header, 0, 950, "old"))
    assert found_in(FILES, [*SOUND, trimmed, *said]) == []


def test_epochs_of_another_controller_are_not_judged() -> None:
    said = Voices().leads(2, 5).wrote(2, 5, 10).acknowledged(2, 5, 90).leads(2, 8).rows
    assert found_in(FILES, [*IMPORTED, *said]) == []
    assert found_in(MASTERS, [*IMPORTED, *said]) == [
        "broker 2 leads epoch 8, its elected master is 1"
    ]


def test_a_broker_that_registers_with_an_epoch_that_none_elected_is_found() -> None:
    index = at_change(SOUND, BrokerRegistered, 3)
    [example] = judge(
        altered(SOUND, index, BrokerRegistered, last_epoch=9), invariants=(BY_NAME[FILES],)
    )[1]
    assert example.offset == index
    assert "registered with epoch 9, the newest election began 2" in example.said
    first = at_change(SOUND, BrokerRegistered)
    # brought along
    assert found_in(FILES, altered(SOUND, first, BrokerRegistered, last_epoch=9)) == []


class Overheard(World):
    """A set of real replicas; what they report and what was decided about them become rows."""

    def __init__(self, config: ReplicaConfig | None = None) -> None:
        super().__init__(config)
        self.decisions: list[Decided] = []
        self.said: list[Reported] = []
        self._starts: dict[ReplicaCore, str] = {}
        self._told: Counter[str] = Counter()

    def _perform(self, node: Node, effect: fx.Effect) -> list[fx.Effect] | None:
        if isinstance(effect, fx.ReportEvent) and effect.kind in HEARD:
            start = self._starts.setdefault(node.core, f"start {len(self._starts)}")
            self._told[start] += 1
            head = BrokerEventHeader(
                bytes(16), "c", NAME, node.broker_id, start, self.now_ms, self._told[start]
            )
            self.said.append(Reported(0, len(self.said), HEARD[effect.kind](head, **effect.fields)))
        return super()._perform(node, effect)

    def decide(self, master: int, epoch: int, members: tuple[int, ...], set_epoch: int) -> None:
        change = MasterElected(NAME, master, "h:1", epoch, members, set_epoch, epoch)
        outcome = Outcome(
            len(self.decisions),
            bytes(16),
            "c",
            1,
            "ElectMaster",
            NAME,
            "",
            True,
            None,
            0,
            changes=(change,),
        )
        self.decisions.append(Decided(len(self.decisions), None, outcome, landed=False))


def wander(seed: int, config: ReplicaConfig | None = None) -> Overheard:
    """Writes, cuts, crashes and elections among members, as a controller would decide them (S6,
    S7).
    """
    dice, world = random.Random(seed), Overheard(config)
    for one in (1, 2, 3):
        world.add(one)
    master, epoch, set_epoch, members = 1, 1, 1, (1, 2, 3)
    world.decide(master, epoch, members, set_epoch)
    for _ in range(120):
        action = dice.choice(["write"] * 6 + ["elect", "crash", "restart", "cut", "accept", "time"])
        node = world.nodes[master]
        up = tuple(one for one in members if world.nodes[one].up)
        if action == "write" and node.up and node.core.write_refusal() is None:
            world.write(master, dice.randint(1, 4), settle=dice.random() < 0.7)
        elif action in ("elect", "restart") and len(up) >= 2:
            for one in world.nodes:
                if action == "restart" and not world.nodes[one].up:
                    world.now_ms += 1
                    world.restart(one)
            master, epoch, set_epoch, members = dice.choice(up), epoch + 1, set_epoch + 1, up
            world.decide(master, epoch, members, set_epoch)
        elif action == "crash" and len(up) > 2:
            world.crash(dice.choice(up))
        elif action == "cut" and (links := world.links_of(dice.choice([1, 2, 3]))):
            world.cut_link(dice.choice(links))
        elif action == "accept" and node.up and node.proposals:
            proposal = node.proposals[-1]
            if (proposal.base_set_epoch, proposal.master_epoch) == (
                set_epoch,
                epoch,
            ) and master in proposal.members:
                set_epoch, members = set_epoch + 1, proposal.members
                world.perform(
                    node,
                    node.core.on_alter_result(
                        proposal.token, 0, members, set_epoch, epoch, world.now_ms
                    ),
                )
        else:
            world.advance(dice.choice([50, 200, 1200]))
        for one in (1, 2, 3):
            if dice.random() < 0.7:
                world.notify(one, master, epoch, members, set_epoch=set_epoch)
        if dice.random() < 0.8:
            world.settle()
    return world


@pytest.mark.parametrize("seed", range(15))
def test_whatever_real_replicas_say_while_they_are_sound_is_no_breach(seed: int) -> None:
    world = wander(seed)
    kinds = Counter(type(row.event).__name__ for row in world.said)
    assert kinds["RoleChanged"] > 5 and kinds["EpochAppended"] > 5, kinds
    assert judge([*world.decisions, *world.said])[1] == []


def test_the_wandering_replicas_cut_their_logs_and_acknowledge() -> None:
    kinds = Counter(type(row.event).__name__ for seed in range(15) for row in wander(seed).said)
    assert kinds["LogTruncated"] > 5 and kinds["FirstMessageAcknowledged"] > 20, kinds


def test_a_set_that_acknowledges_what_one_replica_holds_is_found() -> None:
    """RocketMQ's count mode with one copy (S2): what it acknowledged is lost, and the invariant
    sees where.
    """
    alone = ReplicaConfig(all_ack=False, in_sync_replicas=1, min_in_sync_replicas=1)
    found = [
        one
        for seed in range(15)
        for world in [wander(seed, alone)]
        for one in judge([*world.decisions, *world.said])[1]
    ]
    assert {one.invariant for one in found} == {ACKS}
    assert all("acknowledged up to" in one.said for one in found)
