"""A broker set outlives its masters and controllers, as `regent up` runs it: real processes, `kill
-9`, a ledger.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cluster import replica_logs
from infra.cluster.running import SetView
from infra.controllers.admin import ControllerAdmin
from infra.processes import children
from infra.workload.consumer import CORRUPT
from infra.workload.ledger import compare
from lakehouse.answers.forecast_answer import forecast_of
from lakehouse.sql import query
from tests.equality.comparison import Comparison
from tests.support.controller_answers import ControllerAnswers
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.generated_history import TimedRecord
from tests.support.lake_questions import KnownLog, questions_about
from tests.support.landed_topics import land_records, whole_topics
from tests.support.local_cluster import LocalCluster, wait_until
from tests.support.table_answers import by_fold, by_proof, by_spark, by_sql
from tests.support.verb_answers import VerbAnswers
from tests.support.workload import Workload

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(600)]
RATE = 120
# two or three seconds of the workload
CALM = 250
# a dead master refuses at once; only what is really stuck, not a busy machine, shall count as a
# failed send: as long as a broker itself waits for the acknowledgements
SEND_TIMEOUT_MS = 3_000
# what a log alone does not tell and controllers do not hold: SQL is compared with Spark, below
SQL_ALONE = frozenset(("failovers", "causes", "refusals", "availability", "cut off", "membership"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path_factory.mktemp("failover") / "regent")
    try:
        made.up()
        yield made
        made.down()
    finally:
        made.end()


def lose_master(
    cluster: LocalCluster, workload: Workload, blow: signal.Signals = signal.SIGKILL
) -> tuple[SetView, SetView]:
    """`kill -9` the master, or let it stand still for ever: a new epoch begins, messages flow, and
    it, or the process in its place, is back in the set.
    """
    before = cluster.whole()
    name = cluster.view.process_at(before.master_address or "")["name"]
    pid = cluster.strike(name, blow)
    after = cluster.set_view(
        "a master is elected",
        lambda view: view.master_id is not None and view.master_epoch > before.master_epoch,
    )
    wait_until(lambda: cluster.restarted(name, pid), f"{name} runs again")
    whole = cluster.whole()
    assert before.master_id in whole.in_sync, "the old master rejoined the SyncStateSet"
    workload.flows(CALM, "messages flow after the election")
    return before, after


def kill_controller(cluster: LocalCluster, workload: Workload) -> None:
    """`kill -9` the active controller; the standby leads, sending does not notice."""
    before, killed_ms = cluster.whole(), time.time_ns() // 1_000_000
    pid = cluster.kill(before.controller)
    after = cluster.set_view("the standby leads", lambda view: view.term > before.term)
    assert after.controller != before.controller
    assert (after.master_id, after.master_epoch) == (before.master_id, before.master_epoch), (
        "a takeover elects nobody"
    )
    workload.flows(CALM, "messages flow without the controller that led")
    wait_until(lambda: cluster.restarted(before.controller, pid), f"{before.controller} runs again")
    failed = workload.failed(killed_ms)
    assert not failed, f"a send failed while controllers changed: {failed}"


def test_nothing_acknowledged_is_lost_while_masters_and_controllers_are_killed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    workload = Workload(tmp_path, cluster.name_servers, rate=RATE, timeout_ms=SEND_TIMEOUT_MS)
    try:
        cluster.whole()
        workload.start()
        workload.flows(CALM, "messages flow")
        first = lose_master(cluster, workload)
        kill_controller(cluster, workload)
        second = lose_master(cluster, workload)
        third = lose_master(cluster, workload, signal.SIGSTOP)
        ledger = workload.stop()
    finally:
        workload.end()

    epochs = [view.master_epoch for view in (*first, *second, *third)]
    assert epochs[0] < epochs[1] == epochs[2] < epochs[3] == epochs[4] < epochs[5], (
        f"epochs grow with each election only: {epochs}"
    )
    stored = workload.read_back()
    assert all(sequence != CORRUPT for _, _, sequence in stored)
    result = compare(ledger, stored)
    assert len(ledger.acknowledged) >= 4 * CALM
    assert (result.lost, result.misplaced, result.out_of_order, result.never_sent) == ((), 0, 0, 0)
    assert_replicas_equal(cluster)
    assert_history_is_whole(cluster, elections=4, claims=2)


def assert_replicas_equal(cluster: LocalCluster) -> None:
    """Every replica's log, byte for byte, up to the lowest confirm offset."""
    ends: list[int] = []

    def told() -> bool:
        statuses = [
            cluster.view.broker_status(one["address"]) for one in cluster.processes("broker")
        ]
        ends[:] = [0 if status is None else int(status["confirm_offset"]) for status in statuses]
        return min(ends) > 0

    wait_until(told, "every replica tells its confirm offset")
    logs = {
        one["name"]: Path(one["store_dir"]) / "commitlog" for one in cluster.processes("broker")
    }
    result = replica_logs.compare(logs, min(ends))
    assert result.equal and result.end > result.start and len(result.replicas) == 3, result


def assert_history_is_whole(cluster: LocalCluster, *, elections: int, claims: int) -> None:
    """Outcomes without a gap whose digests a fold of the commands confirms; each step stands in
    them.
    """
    wait_published(cluster)
    outcomes = [one for one in proven_outcomes(cluster.bootstrap) if one.accepted]
    terms = [one.term for one in outcomes if one.kind == "ClaimLeadership"]
    assert terms == list(range(1, len(terms) + 1)) and len(terms) >= claims
    epochs = [
        change.master_epoch
        for one in outcomes
        for change in one.changes
        if type(change).__name__ == "MasterElected"
    ]
    assert epochs == sorted(set(epochs)) and len(epochs) >= elections, (
        "one master per epoch, epochs only grow"
    )


def at_one_moment(
    cluster: LocalCluster, controllers: list[str]
) -> tuple[list[TimedRecord], Comparison, dict[str, Any]]:
    """The log, what a fold of it and the running controllers answer, and what these hold, with
    nothing decided in between.
    """
    found: list[tuple[list[TimedRecord], Comparison, dict[str, Any]]] = []

    def undisturbed() -> bool:
        wait_published(cluster)
        records = whole_topics(cluster.bootstrap)
        log = KnownLog(records)
        answers = Comparison(questions_about(log))
        answers.ask("fold", by_fold(log))
        answers.ask("controllers", ControllerAnswers(controllers))
        held = ControllerAdmin(controllers).state()
        found[:] = [(records, answers, held)]
        return log.outcomes[-1].command_offset == log.folder.offset == held["applied_offset"]

    wait_until(
        undisturbed, "nothing is decided while the log is read and the controllers are asked"
    )
    return found[0]


def assert_alike(answers: Comparison, alone: frozenset[str] = frozenset()) -> None:
    """All that were asked answer alike, except what one of them is `alone` to answer; there may
    have been no refusals, and nothing else.
    """
    told = [one for one in answers.compared if not (one.question in alone and one.rows)]
    assert len(told) > len(alone), "what is compared is more than what is not"
    different = [text for one in told for text in one.why()]
    assert different in ([], ["refusals: no rows"]), different


def test_the_tables_tell_what_the_running_controllers_hold(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """The history that the failovers left: the verbs, SQL, the running controllers and a fold of
    the log answer alike.
    """
    cluster.whole()
    records, answers, held = at_one_moment(
        cluster, [one["address"] for one in cluster.processes("controller")]
    )
    lake = land_records(tmp_path / "tables", records)
    answers.ask("verbs", VerbAnswers(lake.root))
    answers.ask("SQL", by_sql(lake))
    assert_alike(answers, SQL_ALONE)

    for name, one in held["sets"].items():
        [step, *_] = forecast_of(lake, name)["succession"]
        assert step["winner"] in one["sync_state_set"] and step["winner"] != one["master"], (
            "a living member would follow"
        )
    failovers = query.ask(
        lake, "SELECT new_master, new_epoch, unavailable_ms FROM gold.failovers ORDER BY new_epoch"
    ).rows.to_pylist()
    assert len(failovers) >= 2 and failovers[-1]["new_epoch"] == max(
        one["master_epoch"] for one in held["sets"].values()
    )
    assert all(row["unavailable_ms"] is not None for row in failovers), (
        "brokers told the last message and the first acknowledged one"
    )


@pytest.mark.long
def test_spark_tells_of_the_failovers_what_a_fold_of_the_log_tells(
    cluster: LocalCluster, spark: Any, tmp_path: Path
) -> None:
    workload = Workload(tmp_path, cluster.name_servers, rate=RATE, timeout_ms=SEND_TIMEOUT_MS)
    try:
        workload.start()
        workload.flows(CALM, "messages flow")
        lose_master(cluster, workload)
    finally:
        workload.end()
    wait_published(cluster)
    records = whole_topics(cluster.bootstrap)
    log = KnownLog(records)
    lake = land_records(tmp_path / "tables", records)
    answers = Comparison(questions_about(log))
    answers.ask("fold", by_fold(log))
    answers.ask("SQL", by_sql(lake))
    answers.ask("Spark", by_spark(spark, lake))
    answers.ask("Spark's proof", by_proof(spark, lake))
    assert_alike(answers)


def test_nothing_outlives_a_killed_supervisor_and_the_next_start_has_the_messages(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    workload = Workload(tmp_path, cluster.name_servers, rate=RATE, topic="Kept")
    try:
        before = cluster.whole()
        workload.start()
        workload.flows(CALM, "messages flow")
        below = cluster.kill_supervisor()
        assert len(below) > len(cluster.processes()), (
            "the spares, the watchdog and Kafka's Java are among them"
        )
        wait_until(lambda: not any(map(children.is_alive, below)), f"none of {sorted(below)} lives")

        cluster.up()
        workload.flows(CALM, "the producer, which tried all the time, is served again")
        after = cluster.whole()
        assert after.master_epoch > before.master_epoch, (
            "a master that restarted does not go on in its epoch"
        )
        ledger = workload.stop()
        result = compare(ledger, workload.read_back())
        assert len(ledger.acknowledged) >= 2 * CALM
        assert (result.lost, result.misplaced, result.out_of_order, result.never_sent) == (
            (),
            0,
            0,
            0,
        )
        assert_replicas_equal(cluster)
    finally:
        workload.end()
