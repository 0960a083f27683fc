"""Two controller processes on a real Kafka: decisions, a dead master, a dead controller, history
that proves itself.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from events.codec import decode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from processors.fold.folder import Folder
from processors.log.reader import LogReader
from tests.support.controllers import NAMES, WAIT_S, Broker, Controllers

pytestmark = [pytest.mark.kafka, pytest.mark.processes]


async def settled(
    asked: Broker, controller: str, body: str, info: RemotingCommand
) -> RemotingCommand:
    """Ask for another SyncStateSet until its members are known to live."""
    ext = {
        "brokerName": "a",
        "masterBrokerId": info.ext["masterBrokerId"],
        "masterEpoch": info.ext["masterEpoch"],
    }
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while True:
        answer = await asked.asked(controller, 1001, ext, body.encode())
        if answer.code != 2006 or asyncio.get_running_loop().time() > deadline:
            return answer
        await asyncio.sleep(0.05)


async def test_a_set_outlives_its_master_and_its_controller_and_history_proves_it(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    brokers = [Broker(number, controllers) for number in (1, 2, 3)]
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, standby = await controllers.both_follow()
        await brokers[0].join(active)
        elected = await brokers[0].asked(active, 1002, NAMES | {"brokerId": "1"})
        assert elected.code == 0 and elected.ext["masterBrokerId"] == "1"
        for broker in brokers[1:]:
            joined = await broker.join(standby)
            assert joined.ext["masterBrokerId"] == "1", "a standby forwards"
        altered = await settled(
            brokers[0], active, '{"syncStateSet":[1,2,3],"syncStateSetEpoch":1}', elected
        )
        assert altered.code == 0, altered.remark

        await brokers[0].die()
        statuses = await controllers.until(
            lambda all_: all_[active]["sets"]["a"].get("master") == 2, "broker 2 is master"
        )
        assert statuses[active]["sets"]["a"]["sync_state_set"] == [2, 3]
        # The status may be told before the push arrives, which goes over a connection of its own.
        await controllers.until(
            lambda _: any(notice.ext["masterBrokerId"] == "2" for notice in brokers[2].notices),
            "broker 3 is told",
        )

        # Only who decided knows when it detected and probed: a successor would publish the outcome
        # without these times.
        await controllers.until(
            lambda all_: all_[active]["published_offset"] == all_[active]["applied_offset"],
            "the election is published",
        )
        controllers.end(active, signal.SIGKILL)
        info = await brokers[1].asked(standby, 1004, {"brokerName": "a"})
        assert info.code == 0 and info.ext["masterBrokerId"] == "2", info.remark
        shrunk = await settled(
            brokers[1],
            standby,
            f'{{"syncStateSet":[2],"syncStateSetEpoch":{info.ext["regentSyncStateSetEpoch"]}}}',
            info,
        )
        assert shrunk.code == 0, shrunk.remark

        controllers.start(active)
        await controllers.both_follow()
        await published_and_proven(controllers, own_kafka.bootstrap)
        assert controllers.end(active, signal.SIGTERM) == 0
        controllers.start(active)
        await controllers.both_follow()
        statuses = await controllers.until(
            lambda all_: all_["c1"]["applied_offset"] == all_["c2"]["applied_offset"],
            "both are equally far",
        )
        assert statuses["c1"]["digest"] == statuses["c2"]["digest"]
    finally:
        for broker in brokers:
            await broker.die()
        await controllers.close()


async def published_and_proven(controllers: Controllers, bootstrap: str) -> None:
    """The outcomes topic has no hole, and a fold of the commands alone gives every published
    digest.
    """
    statuses = await controllers.until(
        lambda all_: any(
            one["role"] == "active" and one["published_offset"] == one["applied_offset"]
            for one in all_.values()
        ),
        "all is published",
    )
    applied = max(one["published_offset"] for one in statuses.values() if one["role"] == "active")
    reader = LogReader({"bootstrap.servers": bootstrap})
    published = {}
    # Before the commands: what is published meanwhile must find its command among them.
    _, outcomes_end = reader.bounds(OUTCOMES_TOPIC, timeout_s=WAIT_S)

    def keep(offset: int, data: bytes) -> None:
        outcome = decode(data)
        assert published.setdefault(outcome.command_offset, outcome).digest == outcome.digest
        assert outcome.command_offset <= len(published), "an outcome before the one below it"

    reader.read(OUTCOMES_TOPIC, 0, outcomes_end, keep)
    folder, folded = Folder(), {}
    _, end = reader.bounds(COMMANDS_TOPIC, timeout_s=WAIT_S)
    reader.read(
        COMMANDS_TOPIC,
        0,
        end,
        lambda offset, data: folded.update({offset: folder.apply(offset, data).outcome}),
    )
    reader.close()
    assert sorted(published) == list(range(len(published))) and len(published) > applied
    assert all(published[offset].digest == folded[offset].digest for offset in published)
    claims = [one for one in published.values() if one.kind == "ClaimLeadership" and one.accepted]
    assert [one.term for one in claims] == list(range(1, len(claims) + 1)) and len(claims) >= 2
    [elected] = [
        one for one in published.values() if one.cause == "master_probe_refused" and one.accepted
    ]
    assert {"detected", "probed", "received", "applied", "notified"} <= set(elected.phases)
    # An outcome waits for this stamp for a moment only, so one of them may be without it; not all.
    assert any("appended" in one.phases for one in published.values())


async def test_a_paused_controller_is_succeeded_and_stands_by_when_it_wakes(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, standby = await controllers.both_follow()
        controllers.processes[active].send_signal(signal.SIGSTOP)
        await controllers.until_of(
            standby, lambda one: one["role"] == "active", "the standby leads"
        )
        controllers.processes[active].send_signal(signal.SIGCONT)
        # The one that wakes takes itself for the leader until it has read on.
        statuses = await controllers.until(
            lambda all_: (
                (all_[standby]["role"], all_[active]["role"]) == ("active", "standby")
                and all_["c1"]["ready"]
                and all_["c2"]["ready"]
                and all_["c1"]["applied_offset"] == all_["c2"]["applied_offset"]
            ),
            "the one that woke stands by, and both are equally far",
        )
        assert statuses["c1"]["digest"] == statuses["c2"]["digest"]
    finally:
        await controllers.close()


async def test_controllers_outlive_their_kafka(tmp_path: Path, own_kafka: LocalKafka) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    broker = Broker(1, controllers)
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, _ = await controllers.both_follow()
        own_kafka.signal_node(1, signal.SIGKILL)
        unanswered = await broker.call(active, 1012, {"clusterName": "C", "brokerName": "later"})
        assert unanswered.code in (1, 2007), "nothing can be read or decided without the log"
        own_kafka.start_node(1)
        active, _ = await controllers.both_follow()
        answer = await broker.asked(active, 1012, {"clusterName": "C", "brokerName": "later"})
        assert answer.code == 0, answer.remark
        applied = await broker.asked(
            active,
            1013,
            {
                "clusterName": "C",
                "brokerName": "later",
                "registerCheckCode": "h:1;1",
                "appliedBrokerId": answer.ext["nextBrokerId"],
            },
        )
        assert applied.code in (0, 2014), applied.remark
    finally:
        await broker.client.close()
        await controllers.close()


async def test_a_controller_of_another_cluster_refuses_this_log(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    first = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    try:
        first.start("c1")
        await first.until(lambda all_: all_["c1"]["ready"], "it leads")
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        other = Controllers(stranger, own_kafka.bootstrap, "another")
        other.start("c2")
        try:
            code, said = other.wait_end("c2")
        finally:
            await other.close()
        assert code == 70 and "belongs to the cluster 'failover'" in said
    finally:
        await first.close()
