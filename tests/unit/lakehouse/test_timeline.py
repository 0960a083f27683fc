from events.changes import BrokersCleaned, LeadershipClaimed, MasterCleared, MasterElected
from events.changes import SyncStateSetAltered
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
