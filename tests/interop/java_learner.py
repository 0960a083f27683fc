"""Learners of either kind: they copy everything, are never members of the SyncStateSet, and nobody
waits for them.

Responsible for: Java's asyncLearner=true under a master of Regent, our async_learner under a Java
master.
Refuses to know: what a learner is good for.
"""

from __future__ import annotations

from contextlib import ExitStack

from infra.problems import Problem
from tests.interop.both_kinds import (
    Member,
    add,
    broker_set,
    equal_logs,
    folders,
    java,
    log_end,
    make_master,
    ours,
)
from tests.interop.java_client import Producer
from tests.interop.java_set import JavaSet, SetView, commit_bytes_differ, loss_row
from tests.interop.ledger import LedgerRow, acknowledged_of
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

COPIED_WITHIN_S = 60.0
WATCHED_WITHIN_S = 60.0
WATCHED = 400
"""Messages during which the set is looked at: with a learner at the log's end, the rules for
members would take it in at once.
"""


def learner(stage: Stage) -> list[Row]:
    """A set of a Java broker and one of ours; a learner of each kind, each under a master of the
    other.
    """
    with (
        ExitStack() as stack,
        broker_set(stage, "learner", [java("java"), ours("ours")]) as brokers,
    ):
        javas, own = list(brokers.brokers)
        producer = brokers.producer(stage, "Learner")
        stack.callback(producer.end)
        rows = _learns(
            stage,
            stack,
            brokers,
            producer,
            master=own,
            member=java("java-learner", asyncLearner="true"),
        )
        rows += _learns(
            stage,
            stack,
            brokers,
            producer,
            master=javas,
            member=ours("ours-learner", async_learner=True),
        )
        rows.append(loss_row(stage, brokers, producer))
        return [*rows, equal_logs(brokers)]


def _learns(
    stage: Stage,
    stack: ExitStack,
    brokers: JavaSet,
    producer: Producer,
    master: Replica,
    member: Member,
) -> list[Row]:
    """It joins an existing log, copies what is sent meanwhile, and is left aside when the master
    dies.
    """
    make_master(brokers, master)
    made = add(stage, stack, brokers, member)
    brokers.brokers.remove(made)  # the others are whole without it
    seen: list[SetView] = []
    _watch(brokers, producer, seen)
    rows = [_copied(brokers, producer, made, member.name)]
    _watch(brokers, producer, seen)  # at the log's end, where a member would be taken in
    stage.say(f"kill -9 {master.name}: {made.name} is not elected")
    master.kill()
    seen.append(
        brokers.wait(
            "another master", lambda view: view.has_master and view.master_id != master.broker_id
        )
    )
    master.start(wait=False)
    seen.append(brokers.whole())
    _watch(brokers, producer, seen)
    joined = [view for view in seen if made.broker_id in (view.master_id, *view.in_sync)]
    rows += [
        Row(
            f"{member.name}: never a member, never elected",
            f"id {made.broker_id}; {joined[0] if joined else seen[-1]}",
            not joined and made.broker_id in seen[-1].ids,
        ),
        _copied(brokers, producer, made, f"{member.name}, under the next master"),
    ]
    made.stop()
    return rows


def _watch(brokers: JavaSet, producer: Producer, seen: list[SetView]) -> None:
    """While so many messages are acknowledged, every view of the set is kept."""
    began = len(acknowledged_of(producer.rows()))

    def enough(rows: list[LedgerRow]) -> bool:
        view = brokers.view()
        if view is not None:
            seen.append(view)
        return len(acknowledged_of(rows)) >= began + WATCHED

    producer.wait(enough, "messages are acknowledged beside the learner", WATCHED_WITHIN_S)


def _copied(brokers: JavaSet, producer: Producer, made: Replica, what: str) -> Row:
    """With nothing sent: its log is the master's, byte by byte."""
    everybody = folders([*brokers.brokers, made])
    with producer.paused():
        try:
            brokers.world.wait_until(
                lambda: not commit_bytes_differ(everybody),
                "the learner has everything",
                COPIED_WITHIN_S,
            )
        except Problem:
            return Row(f"{what}: copies everything", commit_bytes_differ(everybody), ok=False)
        return Row(
            f"{what}: copies everything", f"{log_end(made)} bytes of log, equal to the members'"
        )
