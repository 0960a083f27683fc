"""All features at once in a set of two brokers of Regent and a Java broker, while masters of both
kinds are killed in turn, ten in all.

Responsible for: the set, the uses and the orderly consumer under way, the kills, the table of what
each came to. Refuses to know: what the uses ask for and how one message is judged.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import call
from infra.features.counts import Blow, Counts
from infra.features.pops import Pops
from infra.features.transactions import Transactions
from infra.features.use import FeatureUse, now_ms
from infra.features.waiting import Delayed, Timed
from infra.problems import Problem
from tests.interop.both_kinds import Member, anew, broker_set, equal_logs, java, make_master, ours
from tests.interop.java_client import Consumer, Producer
from tests.interop.java_rocketmq import JavaBroker
from tests.interop.java_set import JavaSet
from tests.interop.ledger import acknowledged_of, read_arrivals
from tests.interop.orderly import judged_orderly
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

NAME = "features"
KILLS = 10
RATE_PER_S = 10.0
FLOW = 30
"""So many more of each use are acknowledged before a kill, and behind it."""
FLOW_WITHIN_S = 60.0
COPIED_WITHIN_S = 60.0
BEGUN_WITHIN_S = 480.0
"""No kill begins later after the first one: a run that cannot do them all in this time says so."""
USES = (Timed, Delayed, Transactions, Pops)
# A Java broker writes down what was ended every 3 s: whoever asks sooner asks again.
ASKED_AFTER_MS, ASKED_EVERY_MS = 6_000, 6_000
OURS = {"transaction_timeout_ms": ASKED_AFTER_MS, "transaction_check_interval_ms": ASKED_EVERY_MS}
JAVAS = {
    "transactionTimeOut": str(ASKED_AFTER_MS),
    "transactionCheckInterval": str(ASKED_EVERY_MS),
    # OPERATING: what a Java master throws away when puts of it are refused, as just behind its
    # election: a timed message after three, a popped one that shall come back after one
    "timerEnableRetryUntilSuccess": "true",
    "minInSyncReplicas": "1",
    # each thread that ever put a message keeps a buffer of this size
    "maxMessageSize": "262144",
}
MEMBERS: tuple[Member, ...] = (
    ours("regent-1", **OURS),
    java("java-1", **JAVAS),
    ours("regent-2", **OURS),
)
TURNS = (0, 1, 2, 1)
"""Members that lead and die: ours, Java's, our other one, Java's."""
ROUND_MS = 6_000
"""The check point is copied every 3 s, and says what is safe, some seconds ago."""
# README: 10 s where a Java replica takes over. It looks every 3 s whether they are over, and has
# copied the places of groups behind the last change of master (`_copy_tables`).
WINDOW_MS = 13_000


@dataclass(slots=True)
class Mix:
    """All that is under way. `blows`: each change of master, by a kill or by an election that names
    one; `killed`: who led and died, in order.
    """

    brokers: JavaSet
    uses: list[FeatureUse] = field(default_factory=list)
    producer: Producer | None = None
    consumer: Consumer | None = None
    blows: list[Blow] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    def progress(self) -> dict[str, int]:
        """How much of each is acknowledged, and handed out in order."""
        found = {use.what: use.good for use in self.uses}
        if self.producer is not None:
            found["orderly"] = len(acknowledged_of(self.producer.rows()))
        if self.consumer is not None:
            found["handed out in order"] = len(read_arrivals(self.consumer.received))
        return found

    def flow(self) -> None:
        """FLOW more of each, all at the same time. Problem names those that stand still."""
        goals = {what: count + FLOW for what, count in self.progress().items()}
        for use in self.uses:
            use.flows(0)
        deadline = time.monotonic() + FLOW_WITHIN_S
        while short := {w: n for w, n in self.progress().items() if n < goals[w]}:
            if time.monotonic() > deadline:
                still = ", ".join(f"{w} {n} of {goals[w]}" for w, n in short.items())
                raise Problem(
                    f"waited in vain for {FLOW_WITHIN_S:.0f} s until all flow: {still}",
                    f"last seen: {self.brokers.view()}",
                )
            time.sleep(0.1)


def run(stage: Stage) -> list[Row]:
    """Ten kills, every second one of the Java broker as master; `--kills` says how many."""
    kills = int(stage.options.get("kills") or KILLS)
    stage.client_class_path  # noqa: B018  what needs a compiler is said before anything starts
    with broker_set(stage, NAME, MEMBERS) as brokers, ExitStack() as stack:
        mix = Mix(brokers)
        _start(stage, stack, mix)
        began = time.monotonic()
        for number in range(kills):
            if time.monotonic() - began > BEGUN_WITHIN_S:
                break
            _kill(stage, mix, number)
        brokers.whole()
        mix.flow()
        took = time.monotonic() - began
        rows = [_killed(mix, kills, took), *_drained(stage, mix)]
        brokers.whole()
        return [*rows, anew(brokers), equal_logs(brokers)]


def _start(stage: Stage, stack: ExitStack, mix: Mix) -> None:
    """All under way, their topics with every member: a Java slave copies the table every few
    seconds.
    """
    for kind in USES:
        use = kind([mix.brokers.name_servers], f"features-{kind.what}", rate=RATE_PER_S)
        use.start()
        stack.callback(use.end)
        mix.uses.append(use)
    mix.producer = mix.brokers.producer(stage, "orderly", rate=RATE_PER_S)
    stack.callback(mix.producer.end)
    mix.consumer = Consumer(stage, mix.brokers.name_servers, "orderly")
    stack.callback(mix.consumer.stop)
    mix.flow()
    for use in mix.uses:
        mix.brokers.all_know(use.topic)
    stage.say(f"{', '.join(use.what for use in mix.uses)} and orderly messages flow")


def _kill(stage: Stage, mix: Mix, number: int) -> None:
    """The next one in turn leads, is killed, is started again and is back in the set."""
    brokers, began = mix.brokers, time.monotonic()
    victim = brokers.brokers[TURNS[number % len(TURNS)]]
    before = brokers.whole()
    begun_ms = now_ms()
    _copy_tables(brokers, before.master_id, begun_ms)
    view = make_master(brokers, victim)  # type: ignore[arg-type]
    if view.master_epoch != before.master_epoch:
        mix.blows.append(_blow(victim, begun_ms, now_ms(), now_ms() + ROUND_MS))
    mix.flow()
    _copy_tables(brokers, victim.broker_id, now_ms())
    stage.say(f"kill -9 of {victim.name}, {number + 1}, master in epoch {view.master_epoch}")
    at_ms, gone_ms = victim.kill(), now_ms()
    mix.killed.append(victim.name)
    brokers.new_master(victim.broker_id, view.master_epoch)
    victim.start(wait=False)
    mix.flow()
    after = brokers.whole()
    leader = brokers.broker(after.master_id or 0)
    mix.blows.append(_blow(leader, at_ms, gone_ms, now_ms() + ROUND_MS))
    took_s = time.monotonic() - began
    stage.say(f"{leader.name} leads, {victim.name} is back; {took_s:.0f} s; {mix.progress()}")


def _blow(successor: Replica, begun_ms: int, ended_ms: int, whole_ms: int) -> Blow:
    """A change of master. Only a Java broker that takes over may repeat itself meanwhile."""
    return Blow(begun_ms, ended_ms, whole_ms if isinstance(successor, JavaBroker) else 0)


def _copy_tables(brokers: JavaSet, master_id: int | None, since_ms: int) -> None:
    """Every Java slave has the places of groups that the master has now, and a check point of the
    timer as young as that. One that has just come back, or that stayed on a former master, is in
    sync by its log before it has any table of these minutes.

    It copies the check point every 3 s, and all else when more than 10 s are over since the last
    round, which counts as done also where it failed; the first round begins so long after its
    start. Until then its places are those of its file.
    """
    master = brokers.broker(master_id or 0)
    slaves = [one for one in brokers.brokers if isinstance(one, JavaBroker) and one is not master]
    told = _places(master)

    def have_copied() -> bool:
        return all(
            _read_until_ms(one) >= since_ms - ROUND_MS and has_places(told, _places(one))
            for one in slaves
        )

    names = ", ".join(one.name for one in slaves)
    brokers.world.wait_until(have_copied, f"{names} has copied the tables", COPIED_WITHIN_S)


def _places(one: Replica) -> Mapping[str, Mapping[str, int]]:
    """topic@group -> queue -> where the group goes on, as that broker has it in memory."""
    answer = call(one.address, RemotingCommand.request(RequestCode.GET_ALL_CONSUMER_OFFSET))
    fields = fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX)
    assert isinstance(fields, dict) and isinstance(fields["offsetTable"], dict), fields
    return fields["offsetTable"]


def has_places(told: Mapping[str, Mapping[str, int]], own: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether a slave's table is one that its master had since it told this."""
    return all(
        own.get(name, {}).get(queue, -1) >= place
        for name, queues in told.items()
        for queue, place in queues.items()
    )


def _read_until_ms(one: JavaBroker) -> int:
    """The slot of the timer that its master reads next, as its own file has it."""
    path = one.store / "config" / "timercheck"
    return int.from_bytes(path.read_bytes()[:8] if path.exists() else b"", "big")


def _killed(mix: Mix, kills: int, took_s: float) -> Row:
    times = Counter(mix.killed)
    of_both = len(times) >= min(kills, 2)
    return Row(
        "masters killed, back in the set before the next",
        f"{len(mix.killed)} of {kills} in {took_s:.0f} s: "
        + ", ".join(f"{name} {count}" for name, count in times.items()),
        len(mix.killed) == kills and of_both,
    )


# -- the end ---------------------------------------------------------------------------------------


def _drained(stage: Stage, mix: Mix) -> list[Row]:
    """Nobody sends any more; each waits for what is to come, and is judged."""
    assert mix.producer is not None and mix.consumer is not None
    for use in mix.uses:
        use.stop()
    ledger = mix.producer.stop()
    mix.consumer.wait_for(ledger)
    mix.consumer.stop()
    found = [judged_orderly(ledger, mix.consumer.received, mix.blows)]
    for use in mix.uses:
        began = time.monotonic()
        found.append(use.finish(mix.blows))
        stage.say(f"{use.what} came to its end, {time.monotonic() - began:.0f} s")
    documents = stage.documents.setdefault(NAME, {})
    documents.update({counts.what: counts.document() for counts in found})
    broken = [Row("broken", one.problem, ok=False) for one in found if one.problem]
    return [*(Row(one.what, one.text()) for one in found), *broken, *_table(found)]


def _table(found: Sequence[Counts]) -> list[Row]:
    """One row for each thing that is promised, over all features."""
    by_name = {counts.what: counts for counts in found}
    good = sum(counts.good for counts in found)

    def row(what: str, count: Callable[[Counts], int], over: Sequence[Counts] = found) -> Row:
        bad = {one.what: count(one) for one in over if count(one)}
        text = ", ".join(f"{name} {number}" for name, number in bad.items())
        return Row(what, f"{sum(bad.values())} of {good}{f': {text}' if text else ''}", not bad)

    beyond = f"again, done more than {WINDOW_MS / 1000:.0f} s before a change of master"
    twice = [gap for counts in found for gap in counts.twice_ms]
    return [
        row("lost", lambda one: len(one.lost)),
        row("early", lambda one: len(one.early)),
        row("rolled back and visible", lambda one: len(one.forbidden), [by_name["transactions"]]),
        row("out of order in a queue", lambda one: len(one.wrong), [by_name["orderly"]]),
        row("again, and no master changed", lambda one: len(one.unhit)),
        row(beyond, lambda one: sum(gap > WINDOW_MS for gap in one.twice_ms)),
        Row("again within that time", f"{len(twice)}, first handed out {_spread(twice)}"),
    ]


def _spread(gaps_ms: Sequence[int]) -> str:
    if not gaps_ms:
        return "never"
    ordered = sorted(gaps_ms)
    middle, most = ordered[len(ordered) // 2] / 1000, ordered[-1] / 1000
    return f"{middle:.1f} s before it in the median, {most:.1f} s at most"
