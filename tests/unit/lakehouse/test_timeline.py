from events.changes import (
    BrokerSetImported,
    BrokersCleaned,
    LeadershipClaimed,
    MasterCleared,
    MasterElected,
    SyncStateSetAltered,
)
from lakehouse.timeline import Timeline


def elected(master: int, epoch: int, members: tuple[int, ...], set_epoch: int) -> MasterElected:
    return MasterElected("b", master, "h:1", epoch, members, set_epoch, epoch)


def altered(members: tuple[int, ...], set_epoch: int) -> SyncStateSetAltered:
    return SyncStateSetAltered("b", members, set_epoch, (), (), "PROPOSED", (), 1)


def test_a_sound_history_breaks_no_promise() -> None:
    timeline = Timeline()
    for changes in (
        [LeadershipClaimed(1, "n", "h", "0")],
        [elected(1, 1, (1,), 1)],
        [altered((1, 2), 2)],
        # Within one record a master may fall out of the set and be cleared.
        [altered((2,), 3), MasterCleared("b", 1, 1, "UNCLEAN", 1)],
        [elected(2, 3, (2,), 4)],
        [BrokersCleaned("b", (2,), False)],
        [LeadershipClaimed(2, "n", "h", "0")],
    ):
        assert timeline.note(changes) == []


def test_two_masters_in_one_epoch_are_noticed() -> None:
    timeline = Timeline()
    assert timeline.note([elected(1, 4, (1, 2), 1)]) == []
    assert timeline.note([elected(2, 4, (1, 2), 2)]) == ["b: master epoch 4 after 4"]


def test_a_set_epoch_that_stands_still_is_noticed() -> None:
    timeline = Timeline()
    assert timeline.note([elected(1, 1, (1, 2), 5), altered((1,), 5)]) == ["b: set epoch 5 after 5"]


def test_a_master_outside_its_set_is_noticed() -> None:
    assert Timeline().note([elected(3, 1, (1, 2), 1)]) == ["b: master 3 not in its set (1, 2)"]
    timeline = Timeline()
    timeline.note([elected(1, 1, (1, 2), 1)])
    assert timeline.note([altered((2,), 2)]) == ["b: master 1 not in its set (2,)"]


def test_a_term_that_falls_is_noticed() -> None:
    assert Timeline(term=3).note([LeadershipClaimed(2, "n", "h", "0")]) == ["term 2 after 3"]


def imported(master: int | None, epoch: int, members: tuple[int, ...], set_epoch: int) -> BrokerSetImported:
    return BrokerSetImported("b", "c", 9, (), master, epoch, members, set_epoch, epoch, "j:1")


def test_an_import_goes_on_and_may_be_told_again() -> None:
    timeline = Timeline()
    for changes in (
        [imported(1, 7, (1, 2), 9)],
        [imported(1, 7, (1, 2), 9)],
        [imported(2, 8, (2,), 10)],
        [elected(1, 9, (1,), 11)],
    ):
        assert timeline.note(changes) == []


def test_an_import_that_takes_an_epoch_twice_or_falls_is_noticed() -> None:
    assert "imported master epoch" in told_after(imported(2, 4, (1, 2), 6))
    assert "imported set epoch" in told_after(imported(1, 4, (1,), 5))
    assert "below what was" in told_after(imported(None, 3, (1, 2), 5))


def told_after(change: BrokerSetImported) -> str:
    timeline = Timeline()
    assert timeline.note([elected(1, 4, (1, 2), 5)]) == []
    return "; ".join(timeline.note([change]))
