"""A set of three replicas under load, and what every fault of brokers is judged by.

Each run: a producer in a process of its own (its ledger decides), the blow, the set whole again,
everything read back. After each line all replicas hold the same log. Refuses to know which line
does what.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from infra.cluster import replica_logs
from infra.features.use import FeatureUse
from infra.problems import Problem
from infra.workload.client import CALL_TIMEOUT_MS, POLL_MS
from tests.chaos.held_disks import HeldDisks
from tests.chaos.hits import Hits, NotAsItShouldBe, NotPossible, told_in
from tests.chaos.line import Line
from tests.chaos.network import Network
from tests.chaos.stock_client import StockClient
from tests.chaos.verdict import Row, Run, judge
from tests.interop.stage import Stage as JavaStage
from tests.support.local_cluster import LocalCluster, wait_until
from tests.support.workload import Workload

RATE = 200
CALM = 200
QUEUES = 4
CLIENT = (
    f"own client: route poll {POLL_MS} ms, call timeout {CALL_TIMEOUT_MS} ms, {RATE} messages/s of "
    f"1 KiB over {QUEUES} queues"
)
HEARTBEAT_MS, SILENCE_MS = 200, 1_000
FAST_TIMERS = {
    "heartbeat_interval_ms": HEARTBEAT_MS,
    "controller_heartbeat_timeout_ms": SILENCE_MS,
    # Its own client reads the route that often; a broker that is stopped waits for no stock client.
    "route_poll_ms": POLL_MS,
}


class BrokerStage(Hits):
    """`network` is None where the machine permits none, `disks` where none can be made to hang. Of
    the present run: `number` from 1, its producer `load`, `loads`, which are all whose ledgers are
    judged, `stock`, the Java client, where the line has it and there is a JDK, and `feature`, where
    the line uses one.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        home: Path,
        network: Network | None,
        disks: HeldDisks | None = None,
    ) -> None:
        super().__init__(cluster)
        self.home = home
        self.network = network
        self.disks = disks
        self.stock: StockClient | None = None
        self.no_stock = ""
        self.feature: FeatureUse | None = None
        self._java = JavaStage(home / "java-client")
        self.number = 0
        self.loads: list[Workload] = []
        self._line: Line

    # -- one line ----------------------------------------------------------------------------------

    def play(self, line: Line, runs: int | None = None) -> Row:
        """All runs of a line; the first one that is not as it should be is the last."""
        row = Row(line.name, line.may_lose)
        if line.cuts and self.network is None:
            row.skipped = "needs root, or the right to make network namespaces"
            return row
        for number in range(1, (runs or line.runs) + 1):
            try:
                run = self._run(line, number)
            except NotPossible as error:
                row.skipped = str(error)
                return row
            row.runs.append(run)
            if run.problem:
                return row
        try:
            self.compare_logs()
        except (NotAsItShouldBe, AssertionError) as error:
            row.runs[-1].problem = str(error).splitlines()[0]
        return row

    def _run(self, line: Line, number: int) -> Run:
        run = Run()
        self._line, self.number, self.loads = line, number, []
        try:
            with told_in(run):
                self.cluster.whole()
                self._start_stock()
                self.start_load("main")
                self.flows(what="messages flow")
                self._start_feature()
                run.note = line.strike(self)
                self.cluster.whole()
                self._flows_again()
                for load in self.loads:
                    self._judge(run, load)
                self._judge_stock(run)
                self._judge_feature(run)
        finally:
            for load in self.loads:
                load.end()
            if self.stock is not None:
                self.stock.end()
            if self.feature is not None:
                self.feature.end()
        return run

    def _flows_again(self) -> None:
        for load in self.loads:
            load.flows(CALM, "messages flow again")
        if self.stock is not None:
            self.stock.producer.flows(CALM)

    def _judge(self, run: Run, load: Workload) -> None:
        ledger = load.stop()
        figures = load.figures()
        run.gap_ms = max(run.gap_ms, figures["longest_gap_ms"])
        judge(
            run,
            ledger,
            load.read_back(),
            figures["outages"],
            calm=self._line.calm,
            promises=not self._line.may_lose,
        )

        if 0 < self._line.outage_ms_max < max(run.gap_ms, run.rto_ms or 0.0):
            run.problem = run.problem or (
                f"an outage of {max(run.gap_ms, run.rto_ms or 0.0) / 1000:.1f} s, "
                f"{self._line.outage_ms_max / 1000:.1f} s at most is promised"
            )

    # -- the stock client --------------------------------------------------------------------------

    def _start_stock(self) -> None:
        """Where the line has it. Without a JDK the line is played without it, and says so."""
        self.stock = None
        if not self._line.shipped:
            return
        try:
            topic = f"stock-{self._line.name}-{self.number}"
            self.stock = StockClient(self._java, self.cluster.name_servers[0], topic)
        except Problem as problem:
            self.no_stock = problem.what

    def struck(self, name: str) -> None:
        """It is hit now: outages of the stock client are measured from here."""
        if self.stock is not None:
            self.stock.blows.append((name, time.time_ns() // 1_000_000))

    def _judge_stock(self, run: Run) -> None:
        if self.stock is not None:
            self.stock.judge(run, self._line.stock)
        elif self._line.shipped:
            run.note += f"; without the stock Java client: {self.no_stock}"

    # -- a feature that is used --------------------------------------------------------------------

    def _start_feature(self) -> None:
        """Where the line has one; returns when its messages are under way."""
        self.feature, self.blows = None, []
        if self._line.feature is not None:
            topic = f"feature-{self._line.name}-{self.number}"
            self.feature = self._line.feature(self.cluster.name_servers, topic)
            self.feature.start()
            self.feature.flows(CALM)

    def _judge_feature(self, run: Run) -> None:
        """Its messages count as the run's."""
        if self.feature is None:
            return
        self.feature.flows(CALM)
        counts = self.feature.finish(self.blows)
        run.feature = counts.document()
        run.acknowledged += counts.good
        run.lost += len(counts.lost)
        run.duplicated += len(counts.twice_ms)
        run.note += f"; {counts.text()}"
        run.problem = run.problem or counts.problem

    def compare_logs(self) -> int:
        """All replicas' logs, byte for byte, up to the master's confirm offset; gives how many
        bytes are equal.
        """
        brokers = self.cluster.processes("broker")
        master = self.cluster.view.broker_status(self.cluster.whole().master_address or "") or {}
        end = int(master["confirm_offset"])

        def all_there() -> bool:
            statuses = [self.cluster.view.broker_status(one["address"]) or {} for one in brokers]
            return all(status.get("confirm_offset", -1) >= end for status in statuses)

        wait_until(all_there, f"every replica has confirmed {end}")
        found = replica_logs.compare(
            {one["name"]: Path(one["store_dir"]) / "commitlog" for one in brokers}, end
        )
        if not found.equal:
            raise NotAsItShouldBe(f"the replicas' logs differ at {found.first_difference} of {end}")
        return found.end - found.start

    # -- who is who --------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[str]:
        return [one["name"] for one in self.cluster.processes("broker")]

    def master(self) -> str:
        """Name of the master's process, once the set has one."""
        view = self.cluster.set_view(
            "the set has a master", lambda view: view.master_address is not None
        )
        return str(self.cluster.view.process_at(view.master_address or "")["name"])

    def slaves(self) -> list[str]:
        master = self.master()
        return [name for name in self.brokers if name != master]

    def new_master(self, than: str) -> str:
        """Name of the master once it is another one than `than`."""
        address = self.cluster.process(than)["address"]
        self.cluster.set_view(
            f"another master than {than} is elected",
            lambda view: view.master_address not in (None, address),
        )
        return self.master()

    # -- the run's load ----------------------------------------------------------------------------

    @property
    def load(self) -> Workload:
        return self.loads[0]

    def start_load(self, name: str) -> Workload:
        """One more producer of this run, on a topic that does not exist yet; it is stopped and
        judged at the end.
        """
        topic = f"chaos-{self._line.name}-{self.number}-{name}"
        load = Workload(
            self.home / topic, self.cluster.name_servers, rate=RATE, topic=topic, queues=QUEUES
        )
        self.loads.append(load)
        load.start()
        return load

    def flows(self, messages: int = CALM, what: str = "messages flow during it") -> None:
        """So many more messages are acknowledged, and no call fails at present."""
        self.load.flows(messages, what)

    def wait_for(self, seconds: float) -> None:
        """Let the fault last; the producer must live on."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(0.2, max(0.0, until - time.monotonic())))
            self.load.figures()


def flags(network: Network | None, places: Path) -> Sequence[str]:
    """What `regent up` needs for such a cluster."""
    return (
        "--controllers",
        "2",
        "--places",
        str(places),
        *(("--host", network.host) if network else ()),
    )
