"""What a name server tells history of sets whose slaves act for their master."""

from __future__ import annotations

import pytest

from processors.nameserver.departures import Why
from processors.nameserver.effects import Effect
from processors.nameserver.facts import OTHERWISE, Fact, SetFacts
from processors.nameserver.records import DataVersion, LiveBroker, Registration, TopicQueues
from processors.nameserver.routes import RouteTable

NS, A, B, C = "ns:9876", "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
TOPICS = {name: TopicQueues(4, 4, 6) for name in ("T", "U")}


class Told:
    """A real table, and what it tells."""

    def __init__(self) -> None:
        self.table, self.facts = RouteTable(), SetFacts(NS)
        self.now_ms, self.shows = 0, True

    def register(self, broker_id: int, address: str, acting: bool | None = True) -> list[Fact]:
        said = Registration(
            "C", "g", broker_id, address, f"{address}1", DataVersion(), TOPICS,
            acting_master=acting,
        )  # fmt: skip
        return self.after(self.table.register(said, broker_id, self.now_ms).effects)

    def leaves(self, *addresses: str, why: Why = Why.LOST) -> list[Fact]:
        number = {A: 0, B: 1, C: 2}
        gone = [one for to in addresses for one in self.table.connection_closed(number[to])]
        left = self.table.remove(gone)
        return self.after(left.effects, [(one, why) for one, _ in left.brokers])

    def after(
        self, effects: tuple[Effect, ...], left: list[tuple[LiveBroker, Why]] | None = None
    ) -> list[Fact]:
        return self.facts.after(
            effects, left or [], self.now_ms, shows_acting=self.shows, notifies=True
        )


def whole() -> Told:
    told = Told()
    for broker_id, address in enumerate((A, B, C)):
        told.register(broker_id, address)
    return told


def kinds(facts: list[Fact]) -> list[str]:
    return [fact.kind for fact in facts]


def fields(facts: list[Fact], kind: str) -> dict[str, object]:
    [found] = [dict(fact.fields) for fact in facts if fact.kind == kind]
    assert found.pop("name_server") == NS
    return found


def test_members_are_told_when_they_are_others_and_not_at_each_registration() -> None:
    told = Told()
    assert fields(told.register(0, A), "MemberGroupSeen") == {
        "acting_master": True,
        "broker_ids": (0,),
        "addresses": (A,),
        "left_ids": (),
        "left_why": (),
        "left_silent_ms": (),
    }
    assert told.register(0, A) == []
    assert fields(told.register(1, B), "MemberGroupSeen")["broker_ids"] == (0, 1)


def test_for_how_long_who_left_had_not_been_heard_is_told() -> None:
    told = whole()
    told.now_ms += 12_000
    told.register(1, B)
    seen = fields(told.leaves(A, B, why=Why.SILENT), "MemberGroupSeen")
    assert (seen["left_ids"], seen["left_silent_ms"]) == ((0, 1), (12_000, 0))


def test_a_master_that_is_lost_leaves_its_place_in_the_routes_to_the_smallest_slave() -> None:
    told = whole()
    facts = told.leaves(A)
    assert kinds(facts) == ["MemberGroupSeen", "ActingRouteGiven", "NameServerMinIdChanged"]
    seen = fields(facts, "MemberGroupSeen")
    assert (seen["broker_ids"], seen["left_ids"]) == ((1, 2), (0,))
    assert seen["left_why"] == ("its connection closed",)
    assert fields(facts, "ActingRouteGiven") == {"acting_broker_id": 1, "acting_address": B}
    assert fields(facts, "NameServerMinIdChanged") == {
        "min_broker_id": 1,
        "min_address": B,
        "offline_address": A,
        "told": 2,
    }


@pytest.mark.parametrize("why", list(Why), ids=lambda why: why.name)
def test_why_a_broker_left_is_part_of_it(why: Why) -> None:
    assert fields(whole().leaves(A, why=why), "MemberGroupSeen")["left_why"] == (why.value,)


def test_a_broker_that_takes_anothers_id_is_told_as_one_that_came_otherwise() -> None:
    told = whole()
    seen = fields(told.register(1, "10.0.0.9:10911"), "MemberGroupSeen")
    assert (seen["left_ids"], seen["left_why"]) == ((1,), (OTHERWISE,))


def test_a_master_that_is_back_takes_its_place_with_how_long_a_slave_stood_there() -> None:
    told = whole()
    told.leaves(A)
    told.now_ms = 4_000
    facts = told.register(0, A)
    assert fields(facts, "ActingRouteWithdrawn") == {
        "acting_broker_id": 1,
        "acting_address": B,
        "reason": "a master registered",
        "given_for_ms": 4_000,
    }
    assert "ActingRouteGiven" not in kinds(facts)


@pytest.mark.parametrize(
    ("what", "reason", "given"),
    [
        (lambda told: told.leaves(B), "broker 2 has the smallest id now", True),
        (lambda told: told.leaves(B, C), "nobody of the set is left", False),
        (
            lambda told: told.register(2, C, acting=False),
            "the set wants no slave in the place of its master",
            False,
        ),
    ],
    ids=["another acts", "nobody is left", "not wanted"],
)
def test_why_a_slave_stands_in_the_routes_no_more(what, reason: str, given: bool) -> None:
    told = whole()
    told.leaves(A)
    facts = what(told)
    assert fields(facts, "ActingRouteWithdrawn")["reason"] == reason
    assert ("ActingRouteGiven" in kinds(facts)) is given


def test_a_name_server_that_shows_none_gives_and_withdraws_when_it_is_told_to() -> None:
    told = whole()
    told.shows = False
    assert "ActingRouteGiven" not in kinds(told.leaves(A))
    assert kinds(told.facts.shown(5, shows_acting=True)) == ["ActingRouteGiven"]
    assert told.facts.shown(6, shows_acting=True) == []
    [withdrawn] = told.facts.shown(9, shows_acting=False)
    assert "supportActingMaster" in str(withdrawn.fields["reason"])
    assert withdrawn.fields["given_for_ms"] == 4


@pytest.mark.parametrize("acting", [None, False])
def test_of_sets_without_the_mode_nothing_is_told(acting: bool | None) -> None:
    told = Told()
    assert told.register(0, A, acting) == []
    assert told.register(1, B, acting) == []
    assert told.leaves(A) == []


def test_a_set_that_is_gone_is_forgotten() -> None:
    told = whole()
    assert fields(told.leaves(A, B, C), "MemberGroupSeen")["broker_ids"] == ()
    assert told.facts.shown(9, shows_acting=True) == []
