"""The log is lost, cut or made anew, or no longer arrives: nothing is skipped or applied twice, and
who cannot go on ends loudly.

Design S11, D4 and D7, on a real Kafka.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from events.topics import COMMANDS, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka, create_topics
from processors.log import faust_worker
from processors.log.faust_worker import FaustWorker
from tests.support.brokers import free_port
from tests.support.controllers import NAMES, PATIENT, WAIT_S, Controllers
from tests.support.kafka_topics import delete_records, delete_topics
from tests.support.local_cluster import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
EXIT_HALTED = 70
IMPATIENT = "watchdog_ms = 10000\n"


@pytest.fixture
def admin(own_kafka: LocalKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": own_kafka.bootstrap, "log_level": 0})


@pytest.fixture
async def controllers(
    tmp_path: Path, own_kafka: LocalKafka, admin: AdminClient, request: pytest.FixtureRequest
) -> AsyncIterator[Controllers]:
    """Two controllers on fresh topics."""
    await delete(admin, COMMANDS_TOPIC, OUTCOMES_TOPIC)
    made = Controllers(
        tmp_path, own_kafka.bootstrap, "faults", more=getattr(request, "param", PATIENT)
    )
    yield made
    await made.close()


async def delete(admin: AdminClient, *topics: str) -> None:
    await asyncio.to_thread(delete_topics, admin, topics.__contains__)


def make_anew(bootstrap: str) -> None:
    create_topics(bootstrap, [NewTopic(COMMANDS_TOPIC, 1, 1, config=dict(COMMANDS.created))])


async def leader_of_two(controllers: Controllers) -> tuple[str, str]:
    controllers.start("c1")
    controllers.start("c2")
    return await controllers.both_follow()


async def decide(controllers: Controllers, name: str, broker_set: str) -> None:
    """One command through the log, as soon as somebody leads."""
    ext = {**NAMES, "brokerName": broker_set, "appliedBrokerId": "1", "registerCheckCode": "h:1;1"}
    answer = await controllers.asked(name, 1013, ext)
    assert answer.code == 0, answer.remark


async def test_a_topic_that_was_exchanged_stops_running_controllers_and_every_start(
    controllers: Controllers, own_kafka: LocalKafka, admin: AdminClient
) -> None:
    await leader_of_two(controllers)
    await delete(admin, COMMANDS_TOPIC)
    make_anew(own_kafka.bootstrap)
    for name in ("c1", "c2"):
        code, said = controllers.wait_end(name)
        # Whichever look comes first: the topic is gone, it is another one, or it is too short.
        # test_log_health has each for itself.
        told = re.search(
            r"regent\.commands (was deleted|was cut and written anew|ends at offset "
            r"\d+, but)",
            said,
        )
        assert code == EXIT_HALTED and told and "rebuild --from-delta" in said, said
    refused(controllers, "was cut or made anew")
    await delete(admin, COMMANDS_TOPIC)
    refused(controllers, "has no topic regent.commands, but its records were applied")
    make_anew(own_kafka.bootstrap)
    stranger = Producer({"bootstrap.servers": own_kafka.bootstrap})
    for _ in range(100):  # More than were applied here, or it would be called too short.
        stranger.produce(COMMANDS_TOPIC, b"an order for two pizzas", partition=0)
    assert stranger.flush(WAIT_S) == 0
    refused(controllers, "record 0 of regent.commands is not a ClusterFormed")


def refused(controllers: Controllers, reason: str) -> None:
    """A start ends at once, and says why."""
    seen = len(controllers.said("c1"))
    controllers.start("c1")
    code, said = controllers.wait_end("c1")
    assert code == EXIT_HALTED and reason in said[seen:], said


PLANTED = """
from processors.fold import folder as fold
honest = fold.Folder.apply
def stumble(self, offset, data):
    if b"stumble" in data:
        raise ZeroDivisionError("planted")
    return honest(self, offset, data)
fold.Folder.apply = stumble
"""


async def test_an_exception_ends_the_process_and_the_standby_ends_without_the_beginning(
    controllers: Controllers, admin: AdminClient
) -> None:
    controllers.start("c1", PLANTED)
    await controllers.until(
        lambda all_: all_["c1"]["role"] == "active", "the one with the error leads"
    )
    controllers.start("c2")
    await controllers.both_follow()
    await decide(controllers, "c2", "stumble")
    code, said = controllers.wait_end("c1")
    assert code == EXIT_HALTED and "planted" in said
    await controllers.until(lambda all_: all_["c2"]["role"] == "active", "the standby leads")
    delete_records(admin, COMMANDS_TOPIC, 1)
    code, said = controllers.wait_end("c2")
    assert code == EXIT_HALTED and "begins at offset 1: its beginning was deleted" in said, said
    refused(controllers, "begins at offset 1: its beginning was deleted")


async def test_a_hole_of_the_log_stops_the_controllers(
    controllers: Controllers, own_kafka: LocalKafka
) -> None:
    """A stranger's transaction ends with a mark, which takes an offset and is never handed out."""
    _, standby = await leader_of_two(controllers)
    stranger = Producer({"bootstrap.servers": own_kafka.bootstrap, "transactional.id": "stranger"})
    await asyncio.to_thread(stranger.init_transactions, WAIT_S)
    stranger.begin_transaction()
    stranger.produce(COMMANDS_TOPIC, b"an order for two pizzas", partition=0)
    await asyncio.to_thread(stranger.commit_transaction, WAIT_S)
    asking = asyncio.ensure_future(decide(controllers, standby, "behind-the-hole"))
    for name in ("c1", "c2"):
        code, said = await asyncio.to_thread(controllers.wait_end, name)
        assert code == EXIT_HALTED and "regent.commands has a hole: offset" in said, said
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_storm_of_rebalances_skips_nothing_and_applies_nothing_twice(
    controllers: Controllers, own_kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers join the active controller's consumer group; the last one keeps its partition for
    good.
    """
    # One that is left half stopped would tell of it in another test.
    monkeypatch.setattr(faust_worker, "STOP_WAIT_S", WAIT_S)
    active, standby = await leader_of_two(controllers)
    starts = json.loads((tmp_path / active / "start-notes.json").read_text())["starts"]
    kafka = {"bootstrap.servers": own_kafka.bootstrap}
    known = (
        await controllers.until(lambda all_: all_[active]["sets_known"] >= 0, "it tells its sets")
    )[active]["sets_known"]
    asked, running = 0, True

    async def ask() -> None:
        nonlocal asked
        while running:
            await decide(controllers, standby, f"set-{asked}")
            asked += 1

    asking = asyncio.ensure_future(ask())
    strangers = []
    try:
        for number in range(3):
            stranger = FaustWorker(
                f"regent-faults-{active}-{starts}",
                kafka,
                tmp_path / f"stranger-{number}",
                next_offset=lambda: 0,
                on_record=lambda offset, data: None,
                on_failure=lambda reason: None,
            )
            await stranger.start()
            strangers.append(stranger)
            before = asked
            while asked < before + 20:
                await asyncio.sleep(0.02)
                assert not asking.done()
            if number < 2:
                await stranger.stop()
        # Whoever holds the partition, decisions go on: what Faust does not bring is read directly.
        running = False
        await asyncio.wait_for(asking, WAIT_S)
        left = await controllers.until(
            lambda all_: (
                len({(one["applied_offset"], one["digest"]) for one in all_.values()}) == 1
                and any(one["role"] == "active" for one in all_.values())
            ),
            "both are equally far",
        )
        assert {one["sets_known"] - known for one in left.values()} == {asked}
    finally:
        running = False
        asking.cancel()
        await asyncio.gather(asking, *(one.stop() for one in strangers), return_exceptions=True)


STUCK = """
import asyncio
from processors.log.faust_worker import FaustWorker
async def stuck(self, stream):
    async for event in stream.events():
        message = event.message
        if b"stick" in message.value:
            await asyncio.Event().wait()
        self.position, self.delivered = message.offset + 1, self.delivered + 1
        self.take(message.offset, message.value)
FaustWorker._drive = stuck
"""


@pytest.mark.parametrize("controllers", [IMPATIENT], indirect=True, ids=["impatient"])
async def test_a_worker_that_is_stuck_is_helped_and_then_the_process_ends_and_goes_on_anew(
    controllers: Controllers,
) -> None:
    controllers.start("c1", STUCK)
    await controllers.until(lambda all_: all_["c1"]["role"] == "active", "it leads")
    for broker_set in ("stick", "after", "and-after"):
        await decide(controllers, "c1", broker_set)
    code, said = controllers.wait_end("c1")
    assert (
        code == EXIT_HALTED
        and ("it is stuck; starting again helps") in said
        and "were read directly" in said
    )
    controllers.start("c1")
    await controllers.until(
        lambda all_: (
            all_["c1"]["role"] == "active"
            and {"stick", "after", "and-after"} <= set(all_["c1"]["sets"])
        ),
        "it goes on",
    )


async def test_a_controller_without_a_snapshot_begins_with_the_one_of_another(
    controllers: Controllers, tmp_path: Path
) -> None:
    """Fetched over HTTP, proven by the published digest, and the rest folded from the log (D4)."""
    gives_out = f"127.0.0.1:{free_port()}"
    for name, line in (
        ("c1", f'http_listen = "{gives_out}"'),
        ("c2", f'peers_http = {{ c1 = "{gives_out}" }}\nsnapshot_fetch_gap = 5'),
    ):
        config = tmp_path / f"{name}.toml"
        config.write_text(f"{line}\n{config.read_text()}")
    controllers.start("c1")
    await controllers.until(lambda all_: all_["c1"]["role"] == "active", "it leads")
    decided = 0
    while decided < 15 or not list((tmp_path / "c1" / "snapshots").glob("snapshot-*.bin")):
        await decide(controllers, "c1", f"set-{decided}")
        decided += 1
    await controllers.until(
        lambda all_: all_["c1"]["published_offset"] == all_["c1"]["applied_offset"],
        "all is published",
    )
    # It asks c1 once; that a busy machine lets the answer wait is not the point.
    controllers.start(
        "c2", "from processors.log import snapshots; snapshots.CONNECT_TIMEOUT_S = 60.0"
    )
    await controllers.both_follow()
    await controllers.until(
        lambda all_: (
            len({(one["applied_offset"], one["digest"]) for one in all_.values()}) == 1
            and all(len(one["sets"]) == decided for one in all_.values())
        ),
        "both agree",
    )
    assert "fetched from c1" in controllers.said("c2") and (
        "the whole log is folded"
    ) not in controllers.said("c2")


async def test_a_name_server_with_a_controller_inside_lives_and_ends_with_it(
    tmp_path: Path, own_kafka: LocalKafka, admin: AdminClient, controllers: Controllers
) -> None:
    """`enableControllerInNamesrv`: two ports, one process, one fate (document 000)."""
    listen, inside = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = tmp_path / "namesrv.conf"
    config.write_text(
        f"listenPort={listen.rpartition(':')[2]}\nbindAddress=127.0.0.1\nenableControllerInNamesrv=true\n"
        f"controllerDLegerGroup=faults\ncontrollerDLegerPeers=n0-{inside}\ncontrollerDLegerSelfId=n0\n"
        f"controllerStorePath={tmp_path / 'inside'}\nlocal_cluster=true\n"
        f"kafka.bootstrap.servers={own_kafka.bootstrap}\n{PATIENT}"
    )

    def start() -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "infra",
            "namesrv",
            "--config",
            str(config),
            "--log-file",
            str(tmp_path / "namesrv.log"),
        ]
        return subprocess.Popen(command, cwd=ROOT)

    process = start()
    try:
        await until_answered(controllers, listen, RequestCode.GET_BROKER_CLUSTER_INFO)
        told = await until_answered(
            controllers,
            inside,
            RequestCode.CONTROLLER_GET_METADATA_INFO,
            lambda one: one.ext.get("isLeader") == "true",
        )
        assert told.ext["controllerLeaderAddress"] == inside
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        process = start()
        await until_answered(
            controllers,
            inside,
            RequestCode.CONTROLLER_GET_METADATA_INFO,
            lambda one: one.ext.get("isLeader") == "true",
        )
        await delete(admin, COMMANDS_TOPIC)
        assert process.wait(WAIT_S) == EXIT_HALTED
        assert "regent.commands was deleted" in (tmp_path / "namesrv.log").read_text()
    finally:
        process.kill()
        process.wait()


async def until_answered(
    controllers: Controllers,
    address: str,
    code: int,
    enough: Callable[[RemotingCommand], bool] = lambda answer: True,
) -> RemotingCommand:
    """The first answer that is a yes, and enough."""
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while True:
        try:
            answer = await controllers.client.call(address, RemotingCommand.request(code), 2_000)
            if answer.code == 0 and enough(answer):
                return answer
        except RemotingError:
            pass
        assert asyncio.get_running_loop().time() < deadline, (
            f"waited in vain for {code} at {address}"
        )
        await asyncio.sleep(0.05)
