"""Histories that parted, among brokers of both kinds: a master dies ahead of everybody and returns
several epochs later.

Responsible for: such a master of either kind, cut by what followed it, nothing acknowledged lost,
logs equal byte by byte.
Refuses to know: epochs that begin at one offset (`java_collision`).
"""

from __future__ import annotations

from tests.interop.both_kinds import (
    at_rest,
    broker_set,
    equal_logs,
    java,
    kill_together,
    log_end,
    make_master,
    ours,
    records,
)
from tests.interop.java_client import Producer
from tests.interop.java_set import JavaSet, loss_row
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

HANGS_WITHIN_S = 20.0
MORE_IN_EACH_EPOCH = 100
PATIENT_MASTER = {"ack_wait_shrink_ms": 20_000}
"""It must die while the set still names those that stand still: otherwise it alone may lead
again.
"""


def parted(stage: Stage) -> list[Row]:
    """First the Java broker dies ahead and is cut by ours, then one of ours dies ahead and is cut
    by the Java one.
    """
    with broker_set(
        stage,
        "parted",
        [java("java"), ours("ours-1", **PATIENT_MASTER), ours("ours-2", **PATIENT_MASTER)],
    ) as brokers:
        javas, first, second = brokers.brokers
        producer = brokers.producer(stage, "Parted")
        try:
            make_master(brokers, javas)
            rows = _parts(stage, brokers, producer, javas, then=[first, second, first])
            make_master(brokers, first)
            rows += _parts(stage, brokers, producer, first, then=[javas, second, javas])
            rows.append(loss_row(stage, brokers, producer))
        finally:
            producer.end()
        return [*rows, equal_logs(brokers)]


def _parts(
    stage: Stage, brokers: JavaSet, producer: Producer, master: Replica, then: list[Replica]
) -> list[Row]:
    """The master dies with bytes of its own; `then` lead one after the other and write; it returns
    under the last of them.
    """
    others = [one for one in brokers.brokers if one is not master]
    producer.flows()
    # the others stop at the same byte: what is more on the master, nobody else has
    with producer.paused():
        common = at_rest(brokers)
        for one in others:
            one.pause()
    stage.say(
        f"everybody but {master.name} stands still from {common} on, sends hang, then kill -9 of "
        "all"
    )
    fell_silent_ms = max(row.end_ms for row in producer.rows())
    producer.wait(
        lambda rows: any(
            row.start_ms > fell_silent_ms and row.outcome != "SEND_OK" for row in rows
        ),
        "sends of that time fail",
        HANGS_WITHIN_S,
    )
    # with the others goes what waits in their sockets: merely woken they would read it
    kill_together(master, *others)
    ahead, messages = log_end(master) - common, len(records(master, common))
    for one in others:
        one.start(wait=False)
    producer.flows(MORE_IN_EACH_EPOCH)
    for one in then:
        make_master(brokers, one)
        producer.flows(MORE_IN_EACH_EPOCH)
    later = [pair for pair in then[-1].epochs() if pair[1] >= common]
    stage.say(f"{master.name} returns, {len(later)} epochs later, under {then[-1].name}")
    master.start(wait=False)
    view = brokers.whole()
    producer.flows()
    returned = [pair for pair in master.epochs() if pair[1] >= common]
    return [
        Row(
            f"{master.name} died ahead of all others",
            f"{ahead} bytes, {messages} messages, from {common} on",
            messages > 0,
        ),
        Row(
            f"{len(later)} epochs later {then[-1].name} cuts it to {common}",
            f"{view}; epochs since {returned}",
            len(later) > 2 and later[0][1] == common and returned == later,
        ),
    ]
