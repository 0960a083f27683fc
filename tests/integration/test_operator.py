"""Every verb for operators, the doctor and the metrics, on a real cluster: Kafka, two controllers,
two brokers.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from processors.wire.operator_requests import CAUSE_OPERATOR
from tests.support.decision_log import proven_outcomes, wait_published
from tests.support.local_cluster import LocalCluster, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(600)]
SET = "broker-a"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = LocalCluster(
        tmp_path_factory.mktemp("operator") / "cluster", "--replicas", "2", "--controllers", "2"
    )
    try:
        made.up()
        made.whole()
        yield made
        made.down()
    finally:
        made.end()


class Operator:
    """The command line, in this process: what it prints and how it ends."""

    def __init__(self, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capsys = capsys

    def say(self, *words: str, code: int = EXIT_DONE) -> str:
        ended, said, error = self._run(words)
        assert ended == code, f"{words}: {said}{error}{self._cluster.last_words()}"
        return said or error

    def _run(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        self._capsys.readouterr()
        ended = main.main(
            [
                *words,
                *([] if "--controller" in words else ["--dir", str(self._cluster.folder.root)]),
            ]
        )
        captured = self._capsys.readouterr()
        return ended, captured.out, captured.err

    def ask(self, *words: str) -> Any:
        return json.loads(self.say("controller", *words, "--json"))

    def well(self, *words: str) -> Any:
        """What a verb tells once it ends well: on a busy machine a process may answer it too late,
        or not be heard yet by another one.
        """
        found: list[tuple[int, str, str]] = []

        def ends_well() -> bool:
            found[:] = [self._run((*words, "--json"))]
            return found[0][0] == EXIT_DONE

        try:
            wait_until(ends_well, f"{words} ends well")
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}{self._cluster.last_words()}") from None
        return json.loads(found[0][1])

    def status(self) -> Any:
        return self.well("controller", "status")

    def http(self, name: str, path: str, method: str = "GET") -> tuple[int, str]:
        at = next(one["http_address"] for one in self.status()["controllers"] if one["id"] == name)
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"http://{at}{path}", method=method), timeout=10
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def series(self, name: str) -> Series:
        families = text_string_to_metric_families(self.http(name, "/metrics")[1])
        return {
            (s.name, frozenset(s.labels.items())): s.value
            for family in families
            for s in family.samples
        }

    def at_rest(self, name: str) -> Series:
        """Once this controller has applied what is decided and hears both brokers, each of which
        takes a moment.
        """
        found: list[Series] = []

        def is_at_rest() -> bool:
            found[:] = [self.series(name)]
            heard = total(found[0], "active_broker_num", cluster="regent", broker_set=SET)
            return total(found[0], "regent_log_lag_records") == 0 and heard == 2

        wait_until(is_at_rest, f"{name} has applied all and hears both brokers")
        return found[0]


@pytest.fixture
def operator(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(cluster, capsys)


def total(series: Series, wanted: str, **labels: str) -> float:
    """The sum of all series of this name that carry these labels."""
    return sum(
        value
        for (name, found), value in series.items()
        if name == wanted and labels.items() <= dict(found).items()
    )


def test_what_is_there_is_shown_by_every_controller_alike(
    operator: Operator, cluster: LocalCluster
) -> None:
    status = operator.status()
    assert status["problems"] == [] and sorted(one["role"] for one in status["controllers"]) == [
        "active",
        "standby",
    ]
    for one in status["controllers"]:
        shown = json.loads(
            operator.say("controller", "sets", "--json", "--controller", one["address"])
        )["sets"][SET]
        assert (shown["sync_state_set"], shown["next_broker_id"]) == ([1, 2], 3)
    assert "NOTES" in operator.say("controller", "sets") and "HA ADDRESS" in operator.say(
        "controller", "set", SET
    )
    assert operator.ask("ids", SET)["sets"][SET]["unclaimed"] == []
    assert ("Did you mean broker-a?") in operator.say(
        "controller", "set", "broker-b", code=EXIT_USAGE
    )


def test_a_mastership_moves_and_the_metrics_tell_it(
    operator: Operator, cluster: LocalCluster
) -> None:
    before = cluster.whole()
    other = next(one for one in before.in_sync if one != before.master_id)
    leader = operator.status()["leader"]
    elected = total(
        operator.series(leader),
        "election_total",
        broker_set=SET,
        election_result="new_master_elected",
        cluster="regent",
    )
    done = operator.ask("elect", SET, str(other))
    assert (done["result"], done["master"], done["at_risk"]) == ("elected", other, False)
    assert operator.ask("elect", SET)["result"] == "kept"
    after = operator.series(leader)
    assert (
        total(
            after,
            "election_total",
            broker_set=SET,
            election_result="new_master_elected",
            cluster="regent",
        )
        == elected + 1
    )
    assert total(after, "election_total", election_result="keep_current_master") >= 1
    cluster.whole()


def test_another_controller_leads_and_the_set_does_not_notice(
    operator: Operator, cluster: LocalCluster
) -> None:
    before, view = operator.status(), cluster.whole()
    done = operator.ask("transfer")
    assert done["leader"] != before["leader"] and done["term"] == before["term"] + 1
    back = operator.well("controller", "transfer", before["leader"])
    assert (
        back["leader"] == before["leader"]
        and operator.ask("transfer", before["leader"])["result"] == "kept"
    )
    after = cluster.whole()
    assert (after.master_id, after.master_epoch) == (view.master_id, view.master_epoch)


def test_settings_are_recorded_and_log_levels_are_not(
    operator: Operator, cluster: LocalCluster
) -> None:
    applied = operator.status()["applied_offset"]
    assert (
        operator.ask("config", "set", "electMasterMaxRetryCount=6")["changed"][
            "electMasterMaxRetryCount"
        ]["value"]
        == "6"
    )
    assert operator.say("controller", "config", "get", "electMasterMaxRetryCount") == "6\n"
    operator.say("controller", "config", "set", "electMasterMaxRetryCount=six", code=EXIT_USAGE)
    operator.say(
        "controller", "config", "--log-level", "DEBUG", "--logger", "regent.controller.log"
    )
    # brokers may have something to decide at any time: only what operators asked for is counted
    wait_published(cluster)
    since = [
        one
        for one in proven_outcomes(cluster.bootstrap)
        if one.command_offset > applied and one.cause == CAUSE_OPERATOR
    ]
    assert [(one.kind, one.accepted) for one in since] == [("ChangeSettings", True)]
    for one in operator.status()["controllers"]:
        assert "regent.controller.log DEBUG" in operator.http(one["id"], "/loglevel")[1]
        assert operator.http(
            one["id"], "/loglevel?level=INFO&logger=regent.controller.log", "PUT"
        ) == (200, "regent.controller.log INFO\n")


def test_ids_that_nobody_claims_are_cleaned_and_living_replicas_are_not(
    operator: Operator, cluster: LocalCluster
) -> None:
    assert "are alive" in operator.say("controller", "clean", SET, "1", "--yes", code=EXIT_FAILED)
    assert "--yes" in operator.say("controller", "clean", SET, "1", "--living", code=EXIT_USAGE)
    assert "no unclaimed ids" in operator.say(
        "controller", "clean", SET, "--unclaimed", "--yes", code=EXIT_USAGE
    )
    assert sorted(cluster.whole().members) == [1, 2]


def test_the_rules_of_the_release_are_active_in_a_new_cluster(operator: Operator) -> None:
    plan = operator.well("controller", "upgrade", "--dry-run")
    assert plan["active_already"] and plan["blockers"] == [] and len(plan["controllers"]) == 2


def test_the_doctor_finds_nothing_wrong(operator: Operator) -> None:
    found = operator.well("doctor")
    assert found["verdict"] in ("ok", "warn")
    areas = {one["area"] for one in found["findings"]}
    assert areas >= {
        "python",
        "java",
        "open files",
        "disk",
        "kafka",
        "topics",
        "addresses",
        "controllers",
        "clocks",
        "leader",
        "versions",
        "sets",
        "brokers",
        "name servers",
    }


def test_metrics_health_and_readiness_of_leader_and_standby(operator: Operator) -> None:
    status = operator.status()
    for one in status["controllers"]:
        assert operator.http(one["id"], "/healthz") == (200, "ok\n") and operator.http(
            one["id"], "/readyz"
        ) == (200, "ready\n")
        series = operator.at_rest(one["id"])
        assert total(series, "role", peer_id=one["id"], group=status["cluster_id"]) == (
            3 if one["id"] == status["leader"] else 2
        )
        assert total(series, "regent_term") == status["term"]
        assert (
            total(
                series,
                "request_total",
                request_type="CONTROLLER_BROKER_HEARTBEAT",
                request_handle_status="success",
            )
            > 0
        )
    leading = operator.series(status["leader"])
    assert (
        total(
            leading,
            "dledger_op_total",
            dledger_operation="append",
            dLedger_operation_status="success",
        )
        > 0
    )
    assert (
        total(leading, "request_latency_microseconds_count", request_type="REGENT_CONTROLLER_STATE")
        > 0
    )


def test_a_standby_that_is_gone_is_a_problem_with_its_name(
    operator: Operator, cluster: LocalCluster
) -> None:
    standby = next(
        one["id"] for one in operator.status()["controllers"] if one["role"] == "standby"
    )
    cluster.folder.ask({"action": "hold", "name": standby}, timeout_s=60)
    assert f"problem: {standby} at " in operator.say("controller", "status", code=EXIT_FAILED)
    assert "→ Is it running?" in operator.say("doctor", code=EXIT_FAILED)
    cluster.folder.ask({"action": "start", "name": standby}, timeout_s=60)
    wait_until(lambda: cluster.process(standby)["state"] == "ready", f"{standby} is back")
