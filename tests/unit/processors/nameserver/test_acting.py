"""Who acts, who hears of it: the rules alone. The numbered rows are in tests/conformance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.nameserver.acting import (
    MEMBERS_TOPIC_PREFIX,
    addresses_in_route,
    came_with_smaller_id,
    members_seen,
    smallest_id_left,
    without_far_zones,
)
from processors.nameserver.effects import MembersSeen
from processors.nameserver.records import BrokerGroup, TopicQueues
from tests.support.examples import examples
from tests.support.route_tables import RoutedSet, address_of

MEMBERS = st.dictionaries(st.integers(0, 5), st.integers(0, 99).map(address_of), min_size=1)


def group(addresses, acting=True, zone=""):
    return BrokerGroup("C", "a", acting, dict(sorted(addresses.items())), 0, zone)


@given(
    addresses=MEMBERS,
    acting=st.booleans(),
    perm=st.integers(0, 15),
    topic=st.sampled_from(["T", f"{MEMBERS_TOPIC_PREFIX}a"]),
)
@settings(max_examples=examples(200))
def test_a_route_names_the_members_and_another_master_only_where_one_acts(
    addresses, acting, perm, topic
):
    found = group(addresses, acting)
    shown = addresses_in_route(topic, found, TopicQueues(4, 4, perm))
    assert sorted(shown.values()) == sorted(addresses.values())
    assert found.addresses == addresses
    if shown != addresses:
        assert acting and 0 not in addresses and not perm & 2 and topic == "T"
        assert shown[0] == addresses[min(addresses)] and min(addresses) not in shown
    else:
        assert not acting or 0 in addresses or perm & 2 or topic != "T"


@given(addresses=MEMBERS, acting=st.booleans())
@settings(max_examples=examples(100))
def test_who_hears_is_a_member_and_never_the_one_that_came(addresses, acting):
    found = group(addresses, acting)
    newest = addresses[min(addresses)]
    came = came_with_smaller_id(found, "ha")
    assert came.min_address == newest and set(came.receivers) <= set(addresses.values())
    assert len(addresses) == 1 or list(came.receivers) == [
        address for broker_id, address in found.addresses.items() if broker_id != min(addresses)
    ]
    left = smallest_id_left(found, "gone")
    assert left.receivers == (tuple(found.addresses.values()) if acting else ())
    assert (came.offline_address, came.ha_address) == (None, "ha")
    assert (left.offline_address, left.ha_address) == ("gone", None)


@pytest.mark.parametrize(("zone", "names"), [("z1", ["near", "slaves"]), ("z2", ["far", "slaves"])])
def test_a_zone_sees_its_own_and_sets_without_a_master(zone, names):
    groups = {
        "near": group({0: "n"}, zone="z1"),
        "far": group({0: "f"}, zone="z2"),
        "slaves": group({1: "s"}, zone="z3"),
    }
    shown = {name: one.addresses for name, one in groups.items()}
    assert without_far_zones(zone, groups, shown) == names


def test_every_change_of_the_members_is_told():
    """A hook for history: who is there after each change, and that nobody is left."""
    found = RoutedSet()
    for broker_id in (0, 1):
        found.register(broker_id)
        found.register(broker_id)
    found.leave(0)
    found.leave(1)
    seen = [one.members for one in found.effects if isinstance(one, MembersSeen)]
    first, second = {0: address_of(0)}, {1: address_of(1)}
    assert seen == [first, first | second, second, {}]
    assert members_seen(group(first)).acting_master
