"""Each invariant between elections and brokers: what fits breaks nothing, in any order of the topics; what does not is found."""

import pytest
from msgspec.structs import replace

from events.changes import BrokerRegistered, MasterElected
from lakehouse.invariant_rows import Row
from lakehouse.invariants import BY_NAME, OF_BROKERS, judge
from tests.support.judged_history import Voices, altered, at_change, decided, imported_history, sound_history, sound_voices

SOUND = decided(sound_history().records)
IMPORTED = decided(imported_history().records)
MASTERS = "one_master_per_epoch"
FILES = "epoch_files_agree_with_elections"
CUTS = "truncations_agree_with_elections"
ACKS = "no_acknowledgement_after_the_successor_began"

BROKEN = [
    (MASTERS, sound_voices().leads(3, 2), "broker 3 leads epoch 2, its elected master is 2"),
    (MASTERS, sound_voices().follows(3, 2, 1), "broker 3 follows 1 in epoch 2, its elected master is 2"),
    (FILES, sound_voices().wrote(1, 2, 950), "start 950, another start 900 was told before"),
    (FILES, sound_voices().wrote(1, 2, 850), "start 850, another start 900 was told before"),
    (CUTS, sound_voices().cut(2, 1300, 1000, 2), "broker 2 cut its log while it led epoch 2"),
    (CUTS, sound_voices().cut(1, 900, 1000, 1), "cut its log from 900 up to 1000"),
    (CUTS, sound_voices().cut(3, 1300, 800, 2), "cut its log to 800, the end is of epoch 2, which starts at 900"),
    (ACKS, sound_voices().acknowledged(1, 1, 500), "broker 1 acknowledged in epoch 1 after it knew 2"),
    (ACKS, sound_voices().acknowledged(3, 2, 950), "broker 3 acknowledged in epoch 2, its master is 2"),
]  # fmt: skip


def found_in(name: str, rows: list[Row]) -> list[str]:
    return [one.said for one in judge(rows, invariants=(BY_NAME[name],))[1]]


@pytest.mark.parametrize("name", [invariant.name for invariant in OF_BROKERS])
def test_sound_histories_keep_it_in_whatever_order_the_topics_land(name: str) -> None:
    said = sound_voices().rows
    between = at_change(SOUND, MasterElected, 1)
    for rows in ([*SOUND, *said], [*said, *SOUND], [*SOUND[:between], *said, *SOUND[between:]], [*said], [*IMPORTED]):
        assert found_in(name, rows) == []


@pytest.mark.parametrize(("name", "voices", "said"), BROKEN, ids=[f"{one[0]}-{one[2][:40]}" for one in BROKEN])
def test_a_word_that_does_not_fit_is_found_at_its_offset(name: str, voices: Voices, said: str) -> None:
    for rows in ([*SOUND, *voices.rows], [*voices.rows, *SOUND]):
        found = judge(rows, invariants=(BY_NAME[name],))[1]
        assert [said in one.said for one in found] == [True], found
        assert (found[0].topic, found[0].partition, found[0].offset) == ("regent.broker-events", 0, len(voices.rows) - 1)


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert {name for name, _, _ in BROKEN} == {invariant.name for invariant in OF_BROKERS}


@pytest.mark.parametrize("lost", range(len(sound_voices().rows)))
def test_an_event_that_was_lost_is_no_breach(lost: int) -> None:
    said = sound_voices().rows
    assert judge([*SOUND, *said[:lost], *said[lost + 1 :]])[1] == []


def test_two_masters_of_one_epoch_by_the_elections() -> None:
    index = at_change(SOUND, MasterElected, 1)
    [example] = judge(altered(SOUND, index, MasterElected, master_epoch=1), invariants=(BY_NAME[MASTERS],))[1]
    assert (example.topic, example.offset, example.said) == ("regent.commands", index, "epoch 1 has masters 1 and 2")


def test_an_epoch_between_two_elections_that_none_began() -> None:
    index = at_change(SOUND, MasterElected, 1)
    rows = altered(altered(SOUND, index, MasterElected, master_epoch=5), at_change(SOUND, MasterElected, 2), MasterElected, master_epoch=6)
    said = Voices().leads(3, 3).wrote(3, 4, 950).cut(1, 1100, 900, 4).rows
    assert found_in(MASTERS, [*rows, *said]) == ["broker 3 leads epoch 3, which no election began"]
    assert found_in(FILES, [*rows, *said]) == ["broker 3 wrote epoch 4, which no election began"]
    assert found_in(CUTS, [*rows, *said]) == ["broker 1 cut its log to 900, the end is of epoch 4, which no election began"]


def test_an_acknowledgement_beyond_the_start_of_the_successor_is_found_whoever_speaks_first() -> None:
    acknowledged = Voices().acknowledged(1, 1, 901).wrote(2, 2, 900).rows
    began = Voices().wrote(2, 2, 900).acknowledged(1, 1, 901).rows
    for said in (acknowledged, began):
        [example] = judge([*SOUND, *said], invariants=(BY_NAME[ACKS],))[1]
        assert "broker 1 acknowledged up to 901 in epoch 1, epoch 2 of broker 2 begins at 900" in example.said
        assert example.offset == (0 if said is acknowledged else 1)
    assert found_in(ACKS, [*SOUND, *Voices().acknowledged(1, 1, 900).wrote(2, 2, 900).rows]) == []


def test_an_election_that_says_that_it_may_lose_messages_is_left_out() -> None:
    """Epoch 3 was designated; and what a later one lacks may have been lost there."""
    assert found_in(ACKS, [*SOUND, *Voices().acknowledged(2, 2, 1300).wrote(3, 3, 1000).rows]) == []
    assert found_in(ACKS, [*SOUND, *Voices().wrote(3, 3, 1000).acknowledged(1, 1, 1300).rows]) == []


def test_a_slave_may_tell_a_later_start_when_old_files_were_deleted() -> None:
    from events.broker_events import LogTrimmed

    said = sound_voices().wrote(1, 2, 950).rows
    trimmed = replace(said[0], event=LogTrimmed(said[0].event.header, 0, 950, "old"))
    assert found_in(FILES, [*SOUND, trimmed, *said]) == []


def test_epochs_of_another_controller_are_not_judged() -> None:
    said = Voices().leads(2, 5).wrote(2, 5, 10).acknowledged(2, 5, 90).leads(2, 8).rows
    assert found_in(FILES, [*IMPORTED, *said]) == []
    assert found_in(MASTERS, [*IMPORTED, *said]) == ["broker 2 leads epoch 8, its elected master is 1"]


def test_a_broker_that_registers_with_an_epoch_that_none_elected_is_found() -> None:
    index = at_change(SOUND, BrokerRegistered, 3)
    [example] = judge(altered(SOUND, index, BrokerRegistered, last_epoch=9), invariants=(BY_NAME[FILES],))[1]
    assert example.offset == index
    assert "registered with epoch 9, the newest election began 2" in example.said
    first = at_change(SOUND, BrokerRegistered)
    assert found_in(FILES, altered(SOUND, first, BrokerRegistered, last_epoch=9)) == []  # brought along
