"""PROTOCOL 4.20: sets without a controller at the name server, step by step.

What RocketMQ's answers was seen at a real one beside ours: `make interop ARGS=acting-requests`.
"""

import pytest

from processors.nameserver.records import Verdict
from tests.conformance.rows import Row, Shown, Table
from tests.support.route_tables import RoutedSet, address_of

REGISTRATION = Table("4.20-registration")
HEARTBEAT = Table("4.20-heartbeat")
LEAVING = Table("4.20-leaving")
NOTICE = Table("4.20-notice")
ROUTE = Table("4.20-route")
TABLES = (REGISTRATION, HEARTBEAT, LEAVING, NOTICE, ROUTE)
STEPS = {
    "4.20-registration": 14,
    "4.20-heartbeat": 2,
    "4.20-leaving": 5,
    "4.20-notice": 2,
    "4.20-route": 6,
}
PROCESS = "tests/unit/processors/nameserver/test_acting_process.py"


def came(*broker_ids: int, acting: bool | None = True) -> RoutedSet:
    """A set of which these registered, in this order."""
    found = RoutedSet(acting)
    for broker_id in broker_ids:
        found.register(broker_id)
    found.told()
    return found


# -- registration ----------------------------------------------------------------------------------


@REGISTRATION.row("1-clusters", shipped={"C": ["a"], "D": ["a"]})
def _():
    """Of two clusters with one name."""
    found = came(0)
    found.register(1, cluster_name="D")
    return found.table.cluster_info()["clusterAddrTable"]


@REGISTRATION.row("2-an-unknown-name", shipped=[0])
def _():
    return came(0).ids()


@REGISTRATION.row("3-the-last-one-decides", shipped=[True, False, True, False])
def _():
    found, seen = came(0), []
    for acting in (True, False, True, None):
        found.register(1, acting_master=acting)
        seen.append(found.table.route("T")["brokerDatas"][0]["enableActingMaster"])
    return seen


@REGISTRATION.row("3-the-zone-too", shipped="z2")
def _():
    found = came(0)
    found.register(0, zone="z1")
    found.register(1, zone="z2")
    return found.table.route("T")["brokerDatas"][0]["zoneName"]


@REGISTRATION.row("4-the-first-member-changes-nothing", shipped=[])
def _():
    found = RoutedSet()
    found.register(0)
    return found.told()


@REGISTRATION.row("4-below-all", shipped=[[[2]], [], [[1, 2, 3]]])
def _():
    """Who is told when 1, 3 and 0 come to 2."""
    found, told = came(2), []
    for broker_id in (1, 3, 0):
        found.register(broker_id)
        told.append([ids for ids, _ in found.told()])
    return told


@REGISTRATION.row("5-another-role-of-one-address", shipped={0: address_of(2)})
def _():
    found = came(2)
    found.register(0, at=address_of(2), counter=2)
    return found.members()


@REGISTRATION.row("6-an-equal-state-version-replaces", shipped=[Verdict.ACCEPTED, address_of(9)])
def _():
    found = came(0)
    return [found.register(0, at=address_of(9)).verdict, found.members()[0]]


@REGISTRATION.row("6-a-smaller-one-does-not", shipped=[Verdict.STALE, address_of(0), None])
def _():
    found = RoutedSet()
    found.register(0, state_version=2)
    result = found.register(0, at=address_of(9), state_version=1)
    return [result.verdict, found.members()[0], result.master_address]


@REGISTRATION.row(
    "6-nor-after-that-master-is-gone",
    shipped=Verdict.ACCEPTED,
    ours=Verdict.STALE,
    because="a master that was paused would stand in the route for a moment",
)
def _():
    found = came(1)
    found.register(0, state_version=2)
    found.leave(0)
    return found.register(0, at=address_of(9), state_version=1).verdict


@REGISTRATION.row(
    "7-one-topic-of-an-unknown-name",
    shipped=(Verdict.SINGLE_TOPIC, True),
    ours=(Verdict.SINGLE_TOPIC, False),
    because="what was refused leaves nothing behind",
)
def _():
    """The verdict, and whether there is a set afterwards."""
    found = RoutedSet()
    verdict = found.register(0, topics={"T": 6}).verdict
    return verdict, "a" in found.table.cluster_info()["brokerAddrTable"]


@REGISTRATION.row("7-one-topic-of-an-id-that-is-there", shipped=[Verdict.ACCEPTED, 6])
def _():
    found = came(0)
    return [found.register(0, topics={"New": 6}, counter=2).verdict, found.perm("New")]


@REGISTRATION.row("8-the-address-of-the-id", shipped={0: address_of(0), 3: address_of(3)})
def _():
    return came(3, 0).members()


@REGISTRATION.row("9-prime", shipped=[4, 6, None])
def _():
    """What a lone slave's topic may: acting on, off, a broker older than the option."""
    return [came(2, acting=acting).perm() for acting in (True, False, None)]


@REGISTRATION.row("9-only-the-smallest", shipped=None)
def _():
    found = came(1)
    found.register(2, topics={"New": 6, "Other": 6})
    return found.perm("New")


@REGISTRATION.row(
    "10-the-write-bit", shipped={"Six": 4, "Seven": 5, "Write": 0, "Read": 4, "Inherit": 1}
)
def _():
    found = RoutedSet()
    topics = {"Six": 6, "Seven": 7, "Write": 2, "Read": 4, "Inherit": 1}
    found.register(1, topics=topics)
    return {topic: found.perm(topic) for topic in topics}


@REGISTRATION.row("10-a-master-brings-it-back", shipped=[4, 6])
def _():
    found = came(0, 1)
    found.leave(0)
    closed = found.perm()
    found.register(0)  # the version it had
    return [closed, found.perm()]


@REGISTRATION.row("10-the-same-version-again", shipped=[6, 4])
def _():
    """Opened by an operator: it stays so while the slave says nothing new."""
    found, seen = came(1), []
    found.table.allow_writes("a")
    for counter in (1, 2):
        found.register(1, counter=counter)
        seen.append(found.perm())
    return seen


@REGISTRATION.row("10-a-topic-that-is-missing", shipped=4)
def _():
    found = came(1)
    found.table.forget_topic("T")
    found.register(1)
    return found.perm()


@REGISTRATION.row("10-topics-that-are-not-named", shipped=[6, None])
def _():
    """They stay, but where registrations delete them."""
    found, seen = came(0), []
    for drops in (False, True):
        found.register(0, counter=2, topics={"U": 6, "V": 6}, drops_absent=drops)
        seen.append(found.perm())
    return seen


@REGISTRATION.row("11-heard-now", shipped=[[], [0]])
def _():
    found, seen = RoutedSet(), []
    found.register(0, now_ms=1_000, timeout_ms=100)
    for now_ms in (1_100, 1_101):
        seen.append([live.broker_id for live, _ in found.expire(now_ms).brokers])
    return seen


@REGISTRATION.row("12-filter-servers", shipped=[["h:1"], ["h:1"], []])
def _():
    found, seen = RoutedSet(), []
    for said in (("h:1",), None, ()):
        found.register(0, filter_servers=said)
        seen.append(found.table.route("T")["filterServerTable"].get(address_of(0), []))
    return seen


@REGISTRATION.row("13-a-slave-hears-of-its-master", shipped=[address_of(0), None, None])
def _():
    """A slave; the master itself; a slave whose master has left."""
    found = came(0)
    results = [found.register(1), found.register(0)]
    found.leave(0)
    return [result.master_address for result in [*results, found.register(1)]]


@REGISTRATION.row(
    "14-the-notice",
    shipped=[
        (
            [1],
            {
                "minBrokerId": "0",
                "minBrokerAddr": address_of(0),
                "haBrokerAddr": f"{address_of(0)}-ha",
            },
        )
    ],
)
def _():
    found = came(1)
    found.register(0)
    return found.told()


@REGISTRATION.row("14-also-where-nobody-acts", shipped=[[1]])
def _():
    found = came(1, acting=False)
    found.register(0)
    return [ids for ids, _ in found.told()]


# -- heartbeats ------------------------------------------------------------------------------------


@HEARTBEAT.row("1-refreshes", shipped=[True, False, []])
def _():
    """Its own cluster, another one; who is silent afterwards."""
    found = RoutedSet()
    found.register(0, timeout_ms=1_000)
    beats = [found.beat(0, 900), found.beat(0, 900, cluster="D")]
    return [*beats, list(found.expire(1_900).brokers)]


@HEARTBEAT.row(
    "1-moves-to-a-newer-connection",
    shipped=[],
    ours=[0],
    because="the connection that closes is not the one it speaks over any more",
)
def _():
    found = came(0)
    found.beat(0, 1, connection=900)
    found.leave(0)
    return found.ids()


@HEARTBEAT.row("2-brings-nobody-back", shipped=[False, []])
def _():
    found = came(0)
    found.leave(0)
    return [found.beat(0, 1), found.ids()]


HEARTBEAT.shown(
    "2-both-dialects-on-the-wire",
    f"{PROCESS}::test_a_heartbeat_of_either_dialect_keeps_a_broker",
    "tests/unit/processors/nameserver/test_process.py::"
    "test_heartbeats_and_version_questions_are_answered",
)

# -- leaving ---------------------------------------------------------------------------------------


@LEAVING.row(
    "1-a-goodbye-of-an-earlier-process",
    shipped=[],
    ours=[0],
    because="it says nothing of the process that registered since",
)
def _():
    found = came(0)
    found.register(0, connection=900)
    found.goodbye(0)
    return found.ids()


@LEAVING.row(
    "1-a-scan-and-a-registration-at-once",
    shipped=[],
    ours=[0],
    because="who registered again since stays",
)
def _():
    found = RoutedSet()
    found.register(0, timeout_ms=100)
    departures = found.table.overdue(1_000)
    found.register(0, now_ms=1_000)
    found.table.remove(departures)
    return found.ids()


@LEAVING.row("1-under-its-name", shipped=[[0], []])
def _():
    found, seen = came(0), []
    for name in ("b", "a"):
        found.goodbye(0, name=name)
        seen.append(found.ids())
    return seen


@LEAVING.row(
    "2-all-of-a-connection",
    shipped=[[1], [2]],
    ours=[[], []],
    because="brokers that share a process are gone together",
)
def _():
    found = RoutedSet()
    for name, broker_id in (("a", 0), ("b", 0), ("a", 1), ("b", 2)):
        found.register(broker_id, at=f"{name}{broker_id}:1", broker_name=name, connection=100)
    found.leave(0)
    return [found.ids("a"), found.ids("b")]


@LEAVING.row(
    "2-while-nobody-could-be-heard",
    shipped=[],
    ours=[0],
    because="the name server stood still, not the broker",
)
def _():
    """Heard until 1,000 ms; then the name server stands still for ten seconds."""
    found = RoutedSet()
    found.register(0, now_ms=1_000, timeout_ms=2_000)
    found.table.heard_nobody(10_000, now_ms=11_500)
    found.expire(11_500)
    return found.ids()


@LEAVING.row("3-nobody-is-left", shipped=[None, {}])
def _():
    found = came(0, 1)
    found.leave(0, 1)
    return [found.perm(), found.table.cluster_info()["clusterAddrTable"]]


@LEAVING.row("4-the-write-bit", shipped=[4, 6, 4])
def _():
    """A lost master of a set that wants acting, of one that does not; a lost slave afterwards."""
    wants, not_ = came(0, 1, 2), came(0, 1, acting=False)
    wants.leave(0)
    not_.leave(0)
    first = wants.perm()
    wants.leave(2)
    return [first, not_.perm(), wants.perm()]


@LEAVING.row("4-a-slave-leaves-a-master", shipped=6)
def _():
    found = came(0, 1)
    found.leave(1)
    return found.perm()


@LEAVING.row("5-together-one-notice", shipped=[([2, 3], "2", address_of(1))])
def _():
    """Master and first slave leave in one batch."""
    found = came(0, 1, 2, 3)
    found.leave(0, 1)
    return [
        (ids, notice["minBrokerId"], notice["offlineBrokerAddr"]) for ids, notice in found.told()
    ]


LEAVING.shown(
    "1-the-queue-is-full",
    f"{PROCESS}::test_a_goodbye_without_room_is_answered_with_1_and_the_rest_leave",
    f"{PROCESS}::test_what_found_no_room_leaves_with_the_next_scan",
)
LEAVING.shown(
    "2-silent-but-not-alone-on-its-connection",
    f"{PROCESS}::test_a_silent_broker_leaves_alone_where_another_speaks_over_its_connection",
)

# -- notices ---------------------------------------------------------------------------------------


@NOTICE.row(
    "1-one-left",
    shipped=[
        (
            [1, 2],
            {
                "minBrokerId": "1",
                "minBrokerAddr": address_of(1),
                "offlineBrokerAddr": address_of(0),
            },
        )
    ],
)
def _():
    found = came(0, 1, 2)
    found.leave(0)
    return found.told()


@NOTICE.row("1-not-the-smallest", shipped=[])
def _():
    found = came(0, 1, 2)
    found.leave(2)
    return found.told()


@NOTICE.row("1-nobody-acts", shipped=[])
def _():
    found = came(0, 1, acting=False)
    found.leave(0)
    return found.told()


@NOTICE.row("2-a-smaller-id-came", shipped=[[1, 2]])
def _():
    found = came(1, 2)
    found.register(0)
    return [ids for ids, _ in found.told()]


@NOTICE.row("2-alone", shipped=[[0]])
def _():
    """A slave that is alone becomes the master in the same process."""
    found = came(2)
    found.register(0, at=address_of(2))
    return [ids for ids, _ in found.told()]


NOTICE.shown(
    "1-on-the-wire",
    f"{PROCESS}::test_slaves_hear_of_a_lost_master_and_of_its_return",
    f"{PROCESS}::test_nobody_is_told_unless_it_is_wanted",
    "tests/unit/processors/nameserver/test_notices.py::"
    "test_a_receiver_that_does_not_answer_holds_up_nobody",
)

# -- routes ----------------------------------------------------------------------------------------


@ROUTE.row("1-off", shipped={1: 1, 2: 2})
def _():
    return came(1, 2).route(acting=False)


@ROUTE.row("2-topics-that-name-members", shipped={1: 1, 2: 2})
def _():
    found, topic = RoutedSet(), "rmq_sys_SYNC_BROKER_MEMBER_a"
    for broker_id in (1, 2):
        found.register(broker_id, topics={topic: 1, "T": 6})
    return found.route(topic)


@ROUTE.row("3-the-smallest-acts", shipped={0: 1, 2: 2, 3: 3})
def _():
    found = came(0, 1, 2, 3)
    found.leave(0)
    return found.route()


@ROUTE.row("3-then-the-next", shipped=[{0: 2, 3: 3}, {0: 3}])
def _():
    found, seen = came(1, 2, 3), []
    for broker_id in (1, 2):
        found.leave(broker_id)
        seen.append(found.route())
    return seen


@ROUTE.row("3-not-while-it-may-be-written", shipped=[{1: 1}, 6])
def _():
    found = came(1)
    found.table.allow_writes("a")
    return [found.route(), found.perm()]


@ROUTE.row("3-not-of-a-set-without-the-mode", shipped=[{1: 1}, {1: 1}])
def _():
    """Nor when the last one to register had it off, and nobody may write."""
    off, flipped = came(1, acting=False), came(1, 2)
    flipped.register(2, acting_master=False)
    flipped.leave(2)
    return [off.route(), flipped.route()]


@ROUTE.row("3-a-master-stays", shipped={0: 0, 1: 1})
def _():
    found = came(0, 1)
    found.table.wipe_writes("a")
    return found.route()


@ROUTE.row("5-true-ids", shipped=[[1, 2], {1: address_of(1), 2: address_of(2)}])
def _():
    """901 and 106."""
    found = came(1, 2)
    return [found.ids(), found.table.cluster_info()["brokerAddrTable"]["a"]["brokerAddrs"]]


@ROUTE.row(
    "3-a-topic-that-a-slave-adds",
    shipped=[6, {1: 1}],
    ours=[4, {0: 1}],
    because="a topic that was made meanwhile is served by who acts, as the others",
)
def _():
    found = came(1)
    queues = found.table._topics["T"]["a"].with_perm(6)
    found.table.add_topic("New", {"a": queues})
    return [found.perm("New"), found.route("New")]


@ROUTE.row("4-zones-afterwards", shipped=[None, {0: 1}, {1: 1}])
def _():
    """A far client, one of the zone, a far one where acting is off."""
    found = RoutedSet()
    found.register(1, zone="z1")
    return [found.route(zone="z2"), found.route(zone="z1"), found.route(zone="z2", acting=False)]


ROUTE.shown(
    "6-warming-up",
    f"{PROCESS}::test_while_it_warms_up_only_routes_are_refused",
    "tests/unit/processors/nameserver/test_operator_requests.py::"
    "test_86_routes_are_served_once_the_wait_is_over",
)


@pytest.mark.parametrize("row", [row for table in TABLES for row in table.rows])
def test_row(row: Row | Shown) -> None:
    row.check()


def test_every_step_has_a_row() -> None:
    for table in TABLES:
        numbers = {int(str(row.id).removeprefix(table.section).split("-")[1]) for row in table.rows}
        assert numbers == set(range(1, STEPS[table.section] + 1)), table.section
