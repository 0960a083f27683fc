"""Roles switched in turn in one set of a Java broker and two of ours, while a stock producer sends.

Responsible for: elections by name (stock mqadmin's and ours) and by killing, each of the three
master at least once, nothing acknowledged lost, order per queue, logs equal byte by byte.
Refuses to know: who wins an election that names nobody.
"""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack

from infra.problems import Problem
from tests.interop.both_kinds import CLUSTER, anew, broker_set, equal_logs, java, make_master, ours
from tests.interop.java_client import PATIENT, Producer
from tests.interop.java_set import JavaSet, SetView, loss_row
from tests.interop.ledger import LedgerRow
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

ELECTED_WITHIN_S = 60.0


def run(stage: Stage) -> list[Row]:
    """By name, by killing, by name, by killing; then by name whoever has not led yet."""
    with (
        ExitStack() as stack,
        broker_set(stage, "switch", [java("java"), ours("ours-1"), ours("ours-2")]) as brokers,
    ):
        producer = brokers.producer(stage, "Switch", PATIENT)
        stack.callback(producer.end)
        turns = _Turns(stage, brokers, producer)
        turns.by_mqadmin(turns.next_one())
        turns.by_killing()
        turns.by_name(turns.next_one())
        turns.by_killing()
        for one in turns.never_led():
            turns.by_name(one)
        rows = [*turns.rows, turns.all_led(), loss_row(stage, brokers, producer)]
        return [*rows, equal_logs(brokers), anew(brokers)]


class _Turns:
    """One change of master after the other; each begins and ends with the whole set in sync and
    messages flowing.
    """

    def __init__(self, stage: Stage, brokers: JavaSet, producer: Producer) -> None:
        self._stage, self._brokers, self._producer = stage, brokers, producer
        self._led = [brokers.master().name]
        self.rows: list[Row] = []

    def by_name(self, one: Replica) -> None:
        """An election that names it, through our own client."""
        before, since = self._begin()
        self._note(make_master(self._brokers, one), before, since, f"{one.name} is elected by name")

    def by_mqadmin(self, one: Replica) -> None:
        """The same by stock mqadmin."""
        before, since = self._begin()
        assert self._brokers.regent is not None
        where = self._brokers.regent.folder.running_cluster()["controllers"][0]
        said = self._stage.java.mqadmin(
            "electMaster",
            "-a",
            where,
            "-b",
            str(one.broker_id),
            "-bn",
            self._brokers.name,
            "-c",
            CLUSTER,
        ).text
        try:
            self._brokers.wait(
                f"{one.name} leads", lambda view: view.master_id == one.broker_id, ELECTED_WITHIN_S
            )
        except Problem as problem:
            raise Problem(problem.what, said[-400:]) from None
        self._note(self._brokers.whole(), before, since, f"{one.name} is elected by mqadmin")

    def by_killing(self) -> None:
        """kill -9 of whoever leads; it returns."""
        before, since = self._begin()
        victim = self._brokers.broker(before.master_id or 0)
        self._stage.say(f"kill -9 {victim.name}, master in epoch {before.master_epoch}")
        victim.kill()
        self._brokers.new_master(victim.broker_id, before.master_epoch)
        self._producer.flows()
        victim.start(wait=False)
        self._note(self._brokers.whole(), before, since, f"{victim.name} is killed, returns")

    def never_led(self) -> list[Replica]:
        return [one for one in self._brokers.brokers if one.name not in self._led]

    def next_one(self) -> Replica:
        """Who does not lead now, those that never did first."""
        master = self._brokers.master()
        return next(one for one in [*self.never_led(), *self._brokers.brokers] if one is not master)

    def all_led(self) -> Row:
        return Row(
            "each was master", " then ".join(self._led), not self.never_led() and len(self._led) > 4
        )

    def _begin(self) -> tuple[SetView, int]:
        self._producer.flows()
        return self._brokers.whole(), time.time_ns() // 1_000_000

    def _note(self, view: SetView, before: SetView, since_ms: int, what: str) -> None:
        self._producer.flows()
        leader = self._brokers.broker(view.master_id or 0).name
        self._led.append(leader)
        rows = [row for row in self._producer.rows() if row.end_ms >= since_ms]
        good = view.master_epoch > before.master_epoch and len(view.in_sync) == len(
            self._brokers.brokers
        )
        self.rows.append(
            Row(
                what,
                f"{leader} leads in epoch {view.master_epoch}, in sync {view.in_sync}; "
                f"{_sends(rows)}",
                good,
            )
        )


def _sends(rows: list[LedgerRow]) -> str:
    answers = sorted(row.end_ms for row in rows if row.outcome == "SEND_OK")
    gap = max((b - a for a, b in itertools.pairwise(answers)), default=0)
    return f"{len(rows) - len(answers)} of {len(rows)} sends failed, longest gap {gap} ms"
