"""A cluster whose log the first release began gets rules 2, then 3, while a producer sends: no send
fails, no digest changes.

Afterwards a release that knows rules 1 and 2 does not start, and says which one does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from events.codec import COMMAND_FINGERPRINTS, decode, peek_fingerprint
from events.commands import ActivateRules
from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC
from infra.kafka.server import LocalKafka
from infra.workload.ledger import compare
from processors.fold.folder import Folder, ReleaseTooOld
from processors.process.controller import release
from tests.support.control_history import (
    CLUSTER_ID,
    FIRST_FINGERPRINTS,
    SECOND_FINGERPRINTS,
    History,
)
from tests.support.controllers import Controllers
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.landed_topics import whole_topics
from tests.support.landing_stage import make_topics
from tests.support.local_cluster import LocalCluster, regent, unhurried_places
from tests.support.workload import Workload

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(600)]
RATE = 100
CALM = 100
# as long as a broker itself waits for the acknowledgements: what is late on a busy machine has not
# failed
SEND_TIMEOUT_MS = 3_000
NEEDED = (
    f"the log activates rules 3, this release has rules 1, 2; release {release()} of controller"
)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, own_kafka: LocalKafka
) -> Iterator[LocalCluster]:
    """Its controllers find a log that holds what the first release formed."""
    make_topics(own_kafka.bootstrap)
    first = Producer({"bootstrap.servers": own_kafka.bootstrap})
    first.produce(COMMANDS_TOPIC, History(rules=1, led=False).records[0], partition=0)
    assert first.flush(60) == 0
    home = tmp_path_factory.mktemp("upgrade")
    words = (
        "--kafka",
        f"bootstrap.servers={own_kafka.bootstrap}",
        *unhurried_places(
            home, controller={"config": {"cluster_id": CLUSTER_ID, "local_cluster": True}}
        ),
    )
    made = LocalCluster(home / "regent", "--controllers", "2", *words)
    try:
        made.up()
        yield made
        made.down()
    finally:
        made.end()


def upgrade(cluster: LocalCluster, to: int) -> None:
    done = regent(
        "controller", "upgrade", "--to", str(to), "--json", "--dir", str(cluster.folder.root)
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    plan = json.loads(done.stdout)
    assert (plan["active"], plan["to"], plan["activated"]) == (to - 1, to, True)


def slave_leaves_and_returns(cluster: LocalCluster, workload: Workload) -> None:
    """A slave is stopped in order and started again: it leaves the set, registers and joins, and
    messages flow throughout.
    """
    master = cluster.whole().master_address
    slave = next(one["name"] for one in cluster.processes("broker") if one["address"] != master)
    cluster.folder.ask({"action": "hold", "name": slave}, timeout_s=60)
    cluster.set_view("the set goes on without it", lambda view: len(view.in_sync) == 2)
    cluster.folder.ask({"action": "start", "name": slave}, timeout_s=60)
    cluster.whole()
    workload.flows(CALM, "messages flow under these rules")


def test_no_send_fails_while_the_rules_become_2_and_3(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    workload = Workload(tmp_path, cluster.name_servers, rate=RATE, timeout_ms=SEND_TIMEOUT_MS)
    try:
        cluster.whole()
        workload.start()
        workload.flows(CALM, "messages flow")
        slave_leaves_and_returns(cluster, workload)
        for rules in (2, 3):
            upgrade(cluster, rules)
            slave_leaves_and_returns(cluster, workload)
        failed = workload.failed()
        ledger = workload.stop()
    finally:
        workload.end()
    result = compare(ledger, workload.read_back())
    assert failed == [], "no send failed"
    assert (len(ledger.acknowledged) >= 4 * CALM, result.lost, result.duplicated) == (True, (), 0)


def test_each_rules_version_decided_in_the_forms_that_its_release_reads(
    cluster: LocalCluster,
) -> None:
    """So a controller of that release beside these could follow until rules came that it does not
    know.
    """
    outcomes = published(cluster)
    known = {1: set(FIRST_FINGERPRINTS), 2: set(SECOND_FINGERPRINTS), 3: set(COMMAND_FINGERPRINTS)}
    rules, decided = 1, dict.fromkeys(known, 0)
    for record, outcome in zip(commands(cluster), outcomes, strict=True):
        assert peek_fingerprint(record) in known[rules], (
            f"{outcome.kind} at {outcome.command_offset} under rules {rules}"
        )
        decided[rules] += outcome.accepted
        if isinstance(command := decode(record), ActivateRules):
            rules = command.rules_version
    assert rules == 3 and all(count >= 3 for count in decided.values()), decided


def test_what_rules_1_and_2_decided_has_the_digests_that_were_published_then(
    cluster: LocalCluster,
) -> None:
    """A folder that knows no rules 3 folds it up to there, and stops where they begin."""
    folder, told = (
        Folder(supported_rules=(1, 2)),
        [outcome.digest for outcome in published(cluster)],
    )
    records = commands(cluster)
    with pytest.raises(ReleaseTooOld, match=f"^{NEEDED}"):
        for offset, record in enumerate(records):
            assert folder.apply(offset, record).outcome.digest == told[offset], offset
    assert folder.state.rules_version == 2 and decode(records[folder.offset + 1]).rules_version == 3


async def test_a_release_with_rules_2_refuses_to_start_and_says_which_one_it_needs(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    older = Controllers(tmp_path, cluster.bootstrap, CLUSTER_ID, names=("older",))
    try:
        older.start(
            "older", planted="from processors.fold import rules; rules.SUPPORTED_RULES = (1, 2)"
        )
        code, said = older.wait_end("older")
        assert code != 0 and NEEDED in said, said
    finally:
        await older.close()
    await asyncio.to_thread(cluster.whole)


def commands(cluster: LocalCluster) -> list[bytes]:
    return [
        value
        for topic, _, _, _, value in whole_topics(cluster.bootstrap)
        if topic == COMMANDS_TOPIC
    ]


def published(cluster: LocalCluster) -> list[Outcome]:
    """Every outcome; a fold of the commands by this release gives their digests again."""
    wait_published(cluster)
    return proven_outcomes(cluster.bootstrap)
