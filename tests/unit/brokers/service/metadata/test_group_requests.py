"""Groups are deleted, copied and kept away from topics, by the numbers of the check list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.tables import subscription_groups
from brokers.service.tables.subscription_groups import SubscriptionGroups
from tests.support.asked import asked, body_of, commit, leading
from tests.support.brokers import pull_request
from tests.support.client_service import Desk
from tests.support.greeting_client import GreetingClient


async def test_61_a_deleted_group_is_gone_here_and_at_the_members(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        body = fastjson.dumps({"groupName": "g"})
        assert (await master.ask(RemotingCommand.request(200, body=body))).code == 0
        assert slave.tables.groups.get("g") is not None
        assert (await asked(master, 207, groupName="g", cleanOffset="false")).code == 0
        assert master.tables.groups.get("g") is None is slave.tables.groups.get("g")
        assert b'"g"' not in (tmp_path / "s" / "config" / "subscriptionGroup.json").read_bytes()
        assert slave.tables.groups.version == master.tables.groups.version
        assert (await asked(master, 207, groupName="nobody")).code == 0
        assert (await asked(master, 207)).code == 1


async def test_61_offsets_stay_unless_they_are_asked_to_go(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 1)
        await desk.ask(pull_request("T", 1, 0, group="g"))
        await asked(desk, 222, group="g", topic="T", timestamp="-1", isForce="true")
        assert (await asked(desk, 207, groupName="g")).code == 0
        assert desk.tables.offsets.query("g", "T", 1) == 3
        assert (await asked(desk, 207, groupName="g", cleanOffset="true")).code == 0
        assert desk.tables.offsets.query("g", "T", 1) is None
        assert desk.service.pulls.given("g", "T", 1) is None
        assert (await asked(desk, 14, consumerGroup="g", topic="T", queueId="1")).ext == {
            "offset": "0"
        }


async def test_353_a_group_is_kept_away_from_a_topic_and_let_in_again(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        pull = pull_request("T", 1, 0, group="g")
        pull.ext.update({"sysFlag": "0", "subVersion": "0"})
        pull.ext.pop("subscription", None)
        assert (await desk.ask(pull)).code in (0, 20)
        one = {"group": "g", "topic": "T"}
        assert await body_of(desk, 353, **one) == {**one, "readable": True}
        assert await body_of(desk, 353, **one, readable="false") == {**one, "readable": False}
        answer = await desk.ask(pull)
        assert answer.code == 16 and answer.remark == (
            "the consumer group[g] is forbidden for topic[T]"
        )
        table = await body_of(desk, 201)
        assert table["forbiddenTable"] == {"g": {"T": 4}}
        again = SubscriptionGroups.from_wire(fastjson.loads(desk.tables.groups.text()))
        assert not again.may_read("g", "T") and again.may_read("g", "U")
        assert await body_of(desk, 353, **one, readable="true") == {**one, "readable": True}
        assert (await desk.ask(pull)).code in (0, 20)
        assert (await asked(desk, 353, group="nobody", topic="T", readable="false")).code == 26
        assert (await asked(desk, 353, group="g", topic="a b", readable="false")).code == 1
        assert (await asked(desk, 353, group="g")).code == 1


async def test_353_is_held_by_the_members_and_goes_with_the_group(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        body = fastjson.dumps({"groupName": "g"})
        await master.ask(RemotingCommand.request(200, body=body))
        assert (await asked(master, 353, group="g", topic="T", readable="false")).code == 0
        assert not slave.tables.groups.may_read("g", "T")
        assert (await asked(master, 207, groupName="g")).code == 0
        assert master.tables.groups.may_read("g", "T") and slave.tables.groups.may_read("g", "T")


def test_what_is_forbidden_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_groups, "FORBIDDEN_MAX", 1)
    groups = SubscriptionGroups()
    assert groups.forbid("g", "T", False, 1) and not groups.forbid("g", "T", False, 1)
    with pytest.raises(ValueError, match="no more"):
        groups.forbid("g", "U", False, 1)
    assert groups.forbid("g", "T", True, 1) and not groups.forbid("g", "T", True, 1)


ANY = st.recursive(
    st.none() | st.integers(-5, 20) | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(ANY)
def test_whatever_a_table_forbids_is_read_within_its_limits(forbidden: object) -> None:
    document = {"subscriptionGroupTable": {}, "forbiddenTable": forbidden}
    found = SubscriptionGroups.from_wire(document)
    again = SubscriptionGroups.from_wire(fastjson.loads(found.text()))
    assert again._forbidden == found._forbidden
    assert all(0 < bits < 16 for topics in found._forbidden.values() for bits in topics.values())


async def test_32_the_places_of_one_group_become_anothers(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        await commit(desk, 2, "old")
        clone = {"srcGroup": "old", "destGroup": "g", "offline": "false"}
        async with GreetingClient(desk):
            assert (await asked(desk, 314, **clone)).code == 0
            assert desk.tables.offsets.query("g", "T", 1) is None
            assert (await asked(desk, 314, **clone | {"offline": "true"})).code == 0
            assert desk.tables.offsets.query("g", "T", 1) == 2
        assert (await asked(desk, 314, srcGroup="old", destGroup="h", topic="T")).code == 0
        assert desk.tables.offsets.query("h", "T", 1) == 2
        for bad in ({"srcGroup": "old"}, {"srcGroup": "old", "destGroup": "a b"}):
            assert (await asked(desk, 314, **bad)).code == 1
