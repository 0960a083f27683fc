"""Controllers that are set up wrongly: two of one id, and two that do not list each other. Each is
named, and neither goes on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.doctor import controllers as doctor
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL
from infra.kafka.server import LocalKafka
from tests.support.controllers import Controllers
from tests.support.kafka_topics import delete_topics

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
EXIT_HALTED = 70


@pytest.fixture
async def controllers(tmp_path: Path, own_kafka: LocalKafka) -> AsyncIterator[Controllers]:
    """Two controllers on fresh topics, not started."""
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap, "log_level": 0})
    await asyncio.to_thread(delete_topics, admin, {COMMANDS_TOPIC, OUTCOMES_TOPIC}.__contains__)
    made = Controllers(tmp_path, own_kafka.bootstrap, "quarrel")
    yield made
    await made.close()


def change(controllers: Controllers, name: str, before: str, after: str) -> None:
    path = controllers.folder / f"{name}.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("starts", "reason"),
    [
        (None, "another process runs as controller c1; every controller needs a controller_id"),
        (5, "that one led before this one: correct controller_id here"),
    ],
)
async def test_of_two_with_one_id_the_later_one_ends_with_the_reason(
    controllers: Controllers, starts: int | None, reason: str
) -> None:
    """A process that has started more often joins another group, so that it gets further."""
    change(controllers, "c2", 'controller_id = "c2"', 'controller_id = "c1"\nkafka_wait_ms = 4000')
    for name in ("c1", "c2"):
        change(controllers, name, "[peers]", "[peers_http]")
    if starts is not None:
        (controllers.folder / "c2").mkdir()
        (controllers.folder / "c2" / "start-notes.json").write_text(f'{{"starts": {starts}}}')
    controllers.start("c1")
    await controllers.until(lambda all_: all_["c1"]["role"] == "active", "the first leads")
    controllers.start("c2")
    code, said = await asyncio.to_thread(controllers.wait_end, "c2")
    assert code == EXIT_HALTED and reason in said, said
    left = await controllers.until(lambda all_: all_["c1"]["role"] == "active", "it leads again")
    assert left["c1"]["term"] < 10
    if starts is not None:
        assert "another process leads as c1" in controllers.said("c1")


async def test_two_that_list_nobody_name_each_other_and_take_turns_ever_more_seldom(
    controllers: Controllers,
) -> None:
    for name in ("c1", "c2"):
        change(controllers, name, "[peers]", "[peers_http]")
        controllers.start(name)
    seen = await controllers.until(
        lambda all_: all(one["leader_changes"] >= 4 for one in all_.values()), "they take turns"
    )
    assert any(one["leader_unlisted"] for one in seen.values())
    for name, other in (("c1", "c2"), ("c2", "c1")):
        said = controllers.said(name)
        named = f"{other} at {controllers.addresses[other]} leads and is not among the peers"
        assert said.count(named) == 1, said
    unlisted = next(name for name, one in seen.items() if one["leader_unlisted"])
    (found,) = doctor.quarrel(unlisted, seen[unlisted], Commands())
    assert found.verdict == FAIL and found.way_out.startswith(f"Add to [peers] of {unlisted}")
