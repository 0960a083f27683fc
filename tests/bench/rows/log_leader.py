"""Three Kafka nodes, the node that leads the command log is killed or paused: one who asks, and
sending meanwhile.
"""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from events.topics import COMMANDS_TOPIC
from tests.bench import asker, blows
from tests.bench.cluster import BenchCluster, BenchFailed, Caller, kill, paused
from tests.bench.figure import Bound, Figure, at_most
from tests.bench.run_context import Bench
from tests.bench.samples import median

KILLS, PAUSES = 2, 1
TOPIC = "bench-log-leader"
ROW = "log-leader"
METADATA_S = 10.0
IN_SYNC_WITHIN_S = 90.0


class KafkaView:
    """Who leads the command log, and who follows it closely."""

    def __init__(self, cluster: BenchCluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient({**cluster.kafka, "log_level": 0})

    def leader_and_in_sync(self) -> tuple[int, list[int]]:
        """(node id, node ids); -1 while nobody leads."""
        partition = (
            self._admin.list_topics(COMMANDS_TOPIC, timeout=METADATA_S)
            .topics[COMMANDS_TOPIC]
            .partitions[0]
        )
        return partition.leader, list(partition.isrs)

    def wait_whole(self) -> int:
        """Until all nodes are in sync; gives the leader."""
        found: list[int] = []

        def whole() -> bool:
            leader, in_sync = self.leader_and_in_sync()
            found[:] = [leader]
            return leader >= 0 and len(in_sync) == 3

        self._cluster.wait("three Kafka nodes in sync", whole, IN_SYNC_WITHIN_S)
        return found[0]

    def process(self, node: int) -> dict[str, object]:
        """The node's process."""
        for one in self._cluster.processes("kafka"):
            if one["name"] == f"kafka-{node}":
                return one
        raise BenchFailed(f"no process for Kafka node {node}")


def _both_saw(
    askers: list[Caller], sending: Caller, at_ns: int, target: str
) -> tuple[blows.Blow, blows.Blow]:
    asked = blows.longest([blows.seen_by(one, at_ns, target) for one in askers])
    return asked, blows.seen_by(sending, at_ns, target)


def _figure(what: str, struck: list[blows.Blow], floor: Bound, goal: Bound) -> Figure:
    times = blows.recovery_times(struck)
    note = (
        f"longest of {len(times)}, median {median(times):.2f} s; two askers, timeout "
        f"{asker.TIMEOUT_MS} ms, the slower one counts"
    )
    return Figure(
        ROW,
        what,
        "s",
        max(times),
        "Kafka alone, fast settings (measured elsewhere): 2.4 to 3.3 s",
        floor=floor,
        goal=goal,
        note=note,
        samples=times,
        details={"blows": [blow.document() for blow in struck]},
    )


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.cluster(
        "three-kafka", "--replicas", "3", "--controllers", "2", "--kafka-nodes", "3", "--no-land"
    )
    log = KafkaView(cluster)
    killed, stopped, sends = [], [], []
    with cluster.sending(TOPIC) as sending, cluster.asking() as askers:
        for _ in range(KILLS):
            victim = log.process(log.wait_whole())
            asked, sent = _both_saw(
                askers, sending, kill(int(str(victim["pid"]))), str(victim["name"])
            )
            killed.append(asked)
            sends.append(sent)
            bench.say(
                f"{victim['name']} killed: {asked.seen.rto_ms or 0:.0f} ms for one who asks, "
                f"{sent.seen.failed_calls} failed sends"
            )
        for _ in range(PAUSES):
            victim = log.process(log.wait_whole())
            with paused(int(str(victim["pid"]))) as at_ns:
                asked, sent = _both_saw(askers, sending, at_ns, str(victim["name"]))
            stopped.append(asked)
            sends.append(sent)
            bench.say(
                f"{victim['name']} paused: {asked.seen.rto_ms or 0:.0f} ms for one who asks, "
                f"{sent.seen.failed_calls} failed sends"
            )
    return [
        _figure("log's leader kill -9, one who asks", killed, at_most(6.0), at_most(3.5)),
        _figure("log's leader paused, one who asks", stopped, at_most(10.0), at_most(5.0)),
        Figure(
            ROW,
            "failed sends meanwhile",
            "sends",
            sum(one.seen.failed_calls for one in sends),
            goal=at_most(0),
            note=(
                "500 messages/s; longest gap between answers "
                f"{max(one.seen.longest_gap_ms for one in sends) / 1000:.2f} s"
            ),
        ),
        blows.loss(ROW, sending, cluster.name_server),
    ]
