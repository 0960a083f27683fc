"""The released Java client with its default settings, beside a run's own producer: it reads its
route every 30 s, keeps to the address it has, and asks for no new one after an error.

Responsible for: a producer and a push consumer of one run, judging them by what their files say.
Refuses to know: who is hit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from infra.problems import Problem
from tests.chaos.line import Line
from tests.chaos.verdict import Run
from tests.interop import stock_pauses
from tests.interop.java_client import Consumer, Producer, first_message, verdict
from tests.interop.stage import Row, Stage, client_jars

RATE_PER_S = 200


class StockClient:
    """`blows`: (who was hit, ms of the wall clock) in this run; behind each one the client's outage
    is measured. Problem without a JDK.
    """

    def __init__(self, stage: Stage, name_server: str, topic: str) -> None:
        self.blows: list[tuple[str, int]] = []
        self._consumer: Consumer | None = None
        first_message(stage, name_server, topic)
        self.producer = Producer(stage, name_server, topic, settings={}, rate=RATE_PER_S)
        self._consumer = Consumer(stage, name_server, topic, settings={})
        self.producer.flows(RATE_PER_S)

    def judge(self, run: Run, also: Callable[[dict[str, Any]], Row] | None) -> None:
        """Ends it; its messages count as the run's, and a row that is not as it should be is the
        run's problem. `also`: of the verdict.
        """
        assert self._consumer is not None
        ledger = self.producer.stop()
        got = self._consumer.wait_for(ledger)
        result = verdict("default", ledger, got, self.blows, [])
        run.acknowledged += result["acknowledged"]
        run.lost += result["lost"]
        run.duplicated += result["stored_twice"]
        rows = [also(result)] if also is not None else []
        told = "; ".join(f"{row.result}" for row in rows)
        run.note += f"; stock Java client: {told}" if told else ""
        for row in (stock_pauses.in_order(result), *rows):
            if not row.ok:
                run.problem = run.problem or f"stock Java client: {row.what}: {row.result}"

    def end(self) -> None:
        self.producer.end()
        if self._consumer is not None:
            self._consumer.stop()


def fetch(lines: Sequence[Line]) -> None:
    """The client's jars, where one of these lines has it: a network that can be cut has no way out
    to fetch them later.
    """
    if any(line.shipped for line in lines):
        with suppress(Problem):  # the line says so
            client_jars(lambda _: None)
