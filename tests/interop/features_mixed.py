"""All features at once in a set of two brokers of Regent and a Java broker, while masters of both
kinds are killed in turn, ten in all.

Responsible for: the set, the uses and the orderly consumer under way, the kills, what each came to.
Refuses to know: what the uses ask for and how they are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tests.features.counts import Blow, Counts
from tests.features.pops import Pops
from tests.features.transactions import Transactions
from tests.features.use import FeatureUse, now_ms
from tests.features.waiting import Delayed, Timed
from tests.interop.both_kinds import Member, anew, broker_set, equal_logs, java, make_master, ours
from tests.interop.java_client import Consumer, Producer
from tests.interop.java_set import JavaSet
from tests.interop.ledger import acknowledged_of, disorder
from tests.interop.stage import Row, Stage

NAME = "features"
KILLS = 10
RATE_PER_S = 10.0
FLOW = 40
"""So many more of each use are acknowledged between two kills."""
USES = (Timed, Delayed, Transactions, Pops)
# A Java broker writes down what was ended every 3 s: whoever asks sooner asks again.
ASKED_AFTER_MS, ASKED_EVERY_MS = 6_000, 10_000
OURS = {"transaction_timeout_ms": ASKED_AFTER_MS, "transaction_check_interval_ms": ASKED_EVERY_MS}
JAVAS = {"transactionTimeOut": str(ASKED_AFTER_MS), "transactionCheckInterval": str(ASKED_EVERY_MS)}
MEMBERS: tuple[Member, ...] = (
    ours("regent-1", **OURS),
    java("java-1", **JAVAS),
    ours("regent-2", **OURS),
)
# README: 10 s where a Java replica takes over. It looks every 3 s whether they are over.
WINDOW_MS = 13_000


def run(stage: Stage) -> list[Row]:
    """Ten kills, every second one of the Java broker as master; `--kills` says how many."""
    kills = int(stage.options.get("kills") or KILLS)
    stage.client_class_path  # noqa: B018  what needs a compiler is said before anything starts
    with broker_set(stage, NAME, MEMBERS) as brokers, ExitStack() as stack:
        uses = [_started(stage, stack, brokers, use) for use in USES]
        producer = brokers.producer(stage, "orderly")
        stack.callback(producer.end)
        consumer = Consumer(stage, brokers.name_servers, "orderly")
        stack.callback(consumer.stop)
        blows = [_kill(brokers, number, uses, producer) for number in range(kills)]
        brokers.whole()
        _flow(uses, producer)
        rows = [row for use in uses for row in _judged(stage, use, blows)]
        rows.append(_orderly(producer, consumer))
        brokers.whole()
        return [*rows, anew(brokers), equal_logs(brokers)]


def _started(
    stage: Stage, stack: ExitStack, brokers: JavaSet, kind: type[FeatureUse]
) -> FeatureUse:
    """Under way, its topic with every member: a Java slave copies the table every few seconds."""
    use = kind([brokers.name_servers], f"features-{kind.what}", rate=RATE_PER_S)
    use.start()
    stack.callback(use.end)
    use.flows(FLOW)
    brokers.all_know(use.topic)
    stage.say(f"{use.what} flow")
    return use


def _kill(brokers: JavaSet, number: int, uses: Sequence[FeatureUse], producer: Producer) -> Blow:
    """Masters in turn, of either kind: ours, Java's, our other one, Java's."""
    order = (0, 1, 2, 1)
    victim = brokers.brokers[order[number % len(order)]]
    view = make_master(brokers, victim)  # type: ignore[arg-type]
    _flow(uses, producer)
    brokers.world.say(f"kill -9 of {victim.name}, {number + 1}")
    at_ms, gone_ms = victim.kill(), now_ms()
    brokers.new_master(victim.broker_id, view.master_epoch)
    victim.start(wait=False)
    _flow(uses, producer)
    brokers.whole()
    return Blow(at_ms, gone_ms)


def _flow(uses: Sequence[FeatureUse], producer: Producer) -> None:
    for use in uses:
        use.flows(FLOW)
    producer.flows(FLOW)


def _judged(stage: Stage, use: FeatureUse, blows: Sequence[Blow]) -> list[Row]:
    counts = use.finish(blows)
    stage.documents.setdefault("features", {})[use.what] = counts.document()
    rows = [Row(f"{use.what}, {len(blows)} masters killed", counts.text(), not counts.problem)]
    if counts.problem:
        rows.append(Row(f"{use.what}: broken", counts.problem, ok=False))
    return [*rows, _twice(counts)]


def _twice(counts: Counts) -> Row:
    beyond = [one for one in counts.twice_ms if one > WINDOW_MS]
    return Row(
        f"{counts.what}: twice, what was done more than {WINDOW_MS / 1000:.0f} s before a kill",
        f"{len(beyond)} of {len(counts.twice_ms)}",
        not beyond,
    )


def _orderly(producer: Producer, consumer: Consumer) -> Row:
    ledger = producer.stop()
    got = consumer.wait_for(ledger)
    consumer.stop()
    lost = acknowledged_of(ledger) - {row[0] for row in got}
    breaches = disorder(ledger, got)
    again = len(got) - len({row[1:] for row in got})
    text = (
        f"{len(lost)} of {len(acknowledged_of(ledger))} lost, {len(breaches)} out of order, "
        f"{again} handed out again {breaches[:3] or ''}"
    )
    return Row("orderly consumer of the Java client", text, not lost and not breaches)
