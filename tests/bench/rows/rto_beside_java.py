"""RTO of many kills and pauses of the master, seen by our own client, and the same blows at a Java
set on a Java controller beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from infra.problems import Problem
from tests.bench import blows, cluster
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, at_most
from tests.bench.java_brokers import JavaBrokers, JavaMember, all_java
from tests.bench.rows import rto_killed_master, rto_paused_master
from tests.bench.rows.rto_paused_master import HEARTBEAT_MS, TIMEOUT_MS
from tests.bench.run_context import Bench
from tests.bench.samples import median, percentile
from tests.interop.java_rocketmq import FAST_BROKER_SETTINGS, FAST_CONTROLLER_SETTINGS, JavaWorld

KILLS, JAVA_KILLS = 30, 8
PAUSES, JAVA_PAUSES = 10, 4
PEER = "Java brokers and controller"
SMALL_FILES = {"mappedFileSizeCommitLog": str(16 << 20)}
AS_OURS = {
    "brokerHeartbeatInterval": str(HEARTBEAT_MS),
    "controllerHeartBeatTimeoutMills": str(TIMEOUT_MS),
}
SCANNED = {"scanNotActiveBrokerInterval": str(HEARTBEAT_MS)}


@dataclass(frozen=True, slots=True)
class Struck:
    """Recovery times in s of one kind of set, and what the blows cost."""

    times: list[float]
    whole_s: list[float]
    said: str


Blow = Callable[[JavaBrokers, JavaMember, int], None]


def _kill(brokers: JavaBrokers, master: JavaMember, epoch: int) -> None:
    """The old process comes back once another one leads."""
    master.process.kill()
    brokers.wait_view("another master", lambda view: view.has_master and view.master_epoch > epoch)
    master.process.start(wait=False)


def _struck_java(
    bench: Bench,
    name: str,
    count: int,
    blow: Blow,
    settings: Mapping[str, str],
    scanned: Mapping[str, str],
    after: Callable[[JavaMember], None],
) -> Struck | None:
    """`after`: what ends the blow once the client is calm again. None without Java. The topic is
    called `name`, the set is not: a set's name is a topic of RocketMQ's own.
    """
    home = bench.folder(f"{name}-java")
    try:
        world = JavaWorld(home, bench.say)
    except Problem as problem:
        bench.say(f"no Java beside: {problem}")
        return None
    with world, all_java(world, f"{name}-java", 3, {**SMALL_FILES, **settings}, scanned) as brokers:
        brokers.create_topic(name)
        seen: list[blows.Blow] = []
        whole_s = []
        late = 0
        with cluster.sending(home, brokers.name_servers, name) as sending:
            for number in range(1, count + 1):
                master = brokers.wait_whole()
                view = brokers.view()
                sending.wait_calm()
                at_ns = time.monotonic_ns()
                try:
                    blow(brokers, master, view.master_epoch if view else 0)
                    seen.append(blows.seen_by(sending, at_ns, master.name))
                except BenchFailed:
                    # No success in a minute. Ours would have failed the row; a peer that stands
                    # still is a figure.
                    late += 1
                    after(master)
                    brokers.wait_whole()
                    seen.append(blows.seen_by(sending, at_ns, master.name))
                finally:
                    after(master)
                brokers.wait_whole()
                whole_s.append(round(blows.seconds_since(at_ns), 1))
                bench.say(
                    f"Java, blow {number}: RTO {seen[-1].seen.rto_ms or 0:.0f} ms, whole again "
                    f"after {whole_s[-1]} s"
                )
        found, acknowledged = blows.read_back(sending, brokers.name_servers)
        anew = (
            (
                f", {len(brokers.started_anew)} slaves started anew because they stayed on a "
                "former master"
            )
            if brokers.started_anew
            else ""
        )
        stood = (
            (
                f", {late} times no send came through within {blows.SEND_WITHIN_S:.0f} s until the "
                "blow was ended and the set was whole"
            )
            if late
            else ""
        )
    return Struck(
        blows.recovery_times(seen),
        whole_s,
        f"lost {len(found.lost)} of {acknowledged} acknowledged{anew}{stood}",
    )


def measure_kills(bench: Bench) -> list[Figure]:
    struck, whole_s, sending, name_server = rto_killed_master.struck_again(
        bench, "bench-kills", bench.times(KILLS)
    )
    loss = replace(blows.loss("rto-kills-java", sending, name_server), row="rto-kills-java")
    ours = Struck(blows.recovery_times(struck), whole_s, "")
    bench.quiet()
    java = _struck_java(
        bench, "bench-kills", bench.times(JAVA_KILLS), _kill, {}, {}, lambda _: None
    )
    timers = ", ".join(
        f"{key}={value}"
        for key, value in {**FAST_BROKER_SETTINGS, **FAST_CONTROLLER_SETTINGS}.items()
    )
    return [
        *figures(
            "rto-kills-java",
            "RTO, master kill -9",
            ours,
            java,
            (1.5, 0.25),
            f"Java's timers: {timers}",
        ),
        loss,
    ]


def measure_pauses(bench: Bench) -> list[Figure]:
    struck, loss = rto_paused_master.struck_again(bench, "bench-pauses", bench.times(PAUSES))
    ours = Struck(blows.recovery_times(struck), [], "")
    bench.quiet()
    java = _struck_java(
        bench,
        "bench-pauses",
        bench.times(JAVA_PAUSES),
        lambda _set, master, _epoch: _pause(master),
        AS_OURS,
        SCANNED,
        lambda master: master.process.resume(),
    )
    timers = (
        f"both with a heartbeat of {HEARTBEAT_MS} ms and a timeout of {TIMEOUT_MS} ms, Java's "
        f"controller looks every {HEARTBEAT_MS} ms"
    )
    return [
        *figures("rto-pauses-java", "RTO, master paused", ours, java, (6.0, 2.0), timers),
        replace(loss, row="rto-pauses-java"),
    ]


def _pause(master: JavaMember) -> None:
    master.process.pause()


def figures(
    row: str, what: str, ours: Struck, java: Struck | None, bounds: tuple[float, float], timers: str
) -> list[Figure]:
    """Median, p95 and longest; `bounds`: floor of the longest and goal of the median, in s."""
    floor, goal = bounds
    whole = f"; set whole again after {median(ours.whole_s):.1f} s" if ours.whole_s else ""
    beside = (
        (
            f"; Java's: {len(java.times)} blows, whole again after {median(java.whole_s):.1f} s "
            f"(median), {java.said}"
        )
        if java
        else ""
    )
    note = (
        f"{len(ours.times)} blows at 500 messages/s of 1 KiB; {blows.CLIENT}{whole}{beside}; "
        f"{timers}"
    )

    def figure(name: str, of: Callable[[list[float]], float], **more: object) -> Figure:
        peer = round(of(java.times), 3) if java else None
        return Figure(
            row,
            f"{what}, {name}",
            "s",
            round(of(ours.times), 3),
            PEER if java else "no Java here",
            peer,
            samples=ours.times,
            details={
                "peer_samples": java.times if java else [],
                "peer_whole_s": java.whole_s if java else [],
            },
            **more,
        )  # type: ignore[arg-type]

    return [
        figure("median", median, goal=at_most(goal), note=note),
        figure("p95", lambda times: percentile(times, 0.95)),
        figure("longest", max, floor=at_most(floor), required=True),
    ]
