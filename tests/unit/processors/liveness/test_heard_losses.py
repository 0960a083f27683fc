"""How much a Java member that started anew must show."""

import pytest
from msgspec.structs import replace

from events.envelope import MemberPosition
from processors.fold.state import BrokerSet
from processors.liveness.heard_losses import expected_of, shows_less
from processors.liveness.pulses import Heartbeat, Pulse
from tests.support.control_history import CLUSTER, NAME, History, seen

KEY = (CLUSTER, NAME, 2)


def java_set(**row: object) -> BrokerSet:
    """Master 1 of ours and a Java member 2 that showed (1, 5,000), and started since."""
    history = History()
    for broker_id in (1, 2):
        history.apply_id(broker_id)
    history.register(1, min_in_sync=2), history.register_java(2)
    history.elect(1)
    history.alter((1, 2), seen(1, offset=5_000), seen(2, incarnation=None, offset=5_000))
    history.register_java(2)
    assert history.set.positions[1] == MemberPosition(2, 1, 5_000, restarted=True)
    return history.set


def pulse(*before: int) -> Pulse:
    return Pulse(KEY, "h2:10911", 1, 0, before=tuple(before) or (-1, -1))


@pytest.mark.parametrize(
    ("epoch", "offset", "less"),
    [
        (1, 4_999, True),
        (1, 5_000, False),
        (1, 9_000, False),
        (0, 9_000, True),
        (2, 0, False),
        (-1, 0, True),
        (-1, -1, False),
    ],
    ids=[
        "less",
        "as much",
        "more",
        "an earlier epoch",
        "a later one",
        "an empty log",
        "nothing told",
    ],
)
def test_who_shows_less_than_the_log_knows_lost_data(epoch, offset, less):
    broker_set = java_set()
    assert shows_less(3, broker_set, pulse(), Heartbeat(KEY, "h2:10911", epoch, offset)) == (
        (1, 5_000) if less else None
    )


@pytest.mark.parametrize(
    ("before", "expected"),
    [((1, 6_000), 6_000), ((1, 4_000), 5_000), ((2, 9_000), 5_000), ((0, 9_000), 5_000)],
    ids=["later", "earlier", "of a later epoch", "of an earlier epoch"],
)
def test_what_this_controller_heard_later_than_the_log_counts_in_the_same_epoch(before, expected):
    broker_set = java_set()
    assert expected_of(broker_set, broker_set.replica(2), before) == (1, expected)
    assert (
        shows_less(3, broker_set, pulse(*before), Heartbeat(KEY, "h2:10911", 1, 5_500)) is not None
    ) is (expected > 5_500)


def test_nothing_is_expected_of_who_did_not_start_tells_its_starts_or_is_unclean_already():
    broker_set = java_set()
    beat = Heartbeat(KEY, "h2:10911", 1, 10)
    goes_on = replace(broker_set, positions=(MemberPosition(2, 1, 5_000),))
    ours = replace(
        broker_set, replicas=tuple(replace(one, incarnation="x") for one in broker_set.replicas)
    )
    unclean = replace(
        broker_set, replicas=tuple(replace(one, clean=False) for one in broker_set.replicas)
    )
    for other in (
        goes_on,
        ours,
        unclean,
        replace(broker_set, positions=()),
        replace(broker_set, replicas=()),
    ):
        assert shows_less(3, other, pulse(), beat) is None
    assert shows_less(2, broker_set, pulse(), beat) is None  # earlier rules know no positions
