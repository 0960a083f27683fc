"""
First full copies among brokers of both kinds: a replica with an empty disk joins under a master of the other kind.

Responsible for: a log of many files, a broker of Regent that copies it from a Java master and a Java broker that copies it
from a master of Regent, both while a stock producer sends, nothing lost, logs equal byte by byte.
Refuses to know: who decides about masters, and what happens to a copy that is cut short.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from infra.problems import Problem
from tests.interop.both_kinds import FILE_BYTES, Member, add, broker_set, equal_logs, java, log_end, make_master, ours
from tests.interop.java_client import PATIENT, Producer, acknowledged_of, read_back
from tests.interop.java_set import JavaSet, loss_row
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

FIRST_BYTES = 64 << 20
BODY_BYTES = 4_000
"""The client compresses larger ones."""
BULK_RATE_PER_S = 5_000
BULK = {"body": str(BODY_BYTES), "threads": "16"}
COPIED_WITHIN_S = 120.0
JAVA_SETTINGS = {"totalReplicas": "4"}


def run(stage: Stage) -> list[Row]:
    """64 MiB between one of each kind; then one more of ours under the Java master, one more of Java under ours."""
    with ExitStack() as stack, broker_set(stage, "copies", [java("java-1", **JAVA_SETTINGS), ours("ours-1")]) as brokers:
        javas, first = brokers.brokers
        make_master(brokers, javas)
        rows = [_written_first(stage, stack, brokers)]
        tail = brokers.producer(stage, "CopyTail", PATIENT)
        stack.callback(tail.end)
        rows += _joins_empty(stage, stack, brokers, tail, ours("ours-2"))
        make_master(brokers, first)
        rows += _joins_empty(stage, stack, brokers, tail, java("java-2", **JAVA_SETTINGS))
        rows.append(loss_row(stage, brokers, tail))
        return [*rows, equal_logs(brokers), _nobody_anew(brokers)]


def _written_first(stage: Stage, stack: ExitStack, brokers: JavaSet) -> Row:
    count = FIRST_BYTES // BODY_BYTES + 1
    bulk = Producer(stage, brokers.name_servers, "CopyBulk", settings=BULK, rate=BULK_RATE_PER_S, count=count)
    stack.callback(bulk.end)
    bulk.wait(lambda rows: len(acknowledged_of(rows)) == count, f"{count} messages are acknowledged")
    back = read_back(stage, brokers.name_servers, "CopyBulk", bulk.stop())
    end = log_end(brokers.master())
    return Row(f"{FIRST_BYTES >> 20} MiB of messages first: acknowledged lost", f"{back}; {end} bytes of log", back.ok and end > FIRST_BYTES)


def _joins_empty(stage: Stage, stack: ExitStack, brokers: JavaSet, tail: Producer, newcomer: Member) -> list[Row]:
    """A member without a store joins while messages go on."""
    tail.flows()
    master, before = brokers.master(), len(tail.rows())
    began = time.monotonic()
    one = add(stage, stack, brokers, newcomer)
    try:
        brokers.wait(f"{one.name} is in sync under {master.name}", lambda view: one.broker_id in view.in_sync, COPIED_WITHIN_S)
    except Problem as problem:
        raise Problem(problem.what, " | ".join(one.logs(5))) from None
    took_s = time.monotonic() - began
    sent = tail.rows()[before:]
    tail.flows()
    gap = max((b.end_ms - a.end_ms for a, b in zip(sent, sent[1:], strict=False)), default=0)
    failed = sum(row.outcome != "SEND_OK" for row in sent)
    what = f"{one.name}, empty, under {master.name}: in sync after"
    return [
        Row(what, f"{took_s:.1f} s; first file {_first_file(one)}, {len(list(one.store.glob('commitlog/*')))} files", _first_file(one) == 0),
        Row("messages sent during that copy", f"{len(sent)}, {failed} failed, longest gap {gap} ms", bool(sent) and not failed),
    ]


def _first_file(one: Replica) -> int:
    """Start of its first log file; -1 where there is none."""
    return min((int(path.name) for path in one.store.glob("commitlog/*") if path.stat().st_size == FILE_BYTES), default=-1)


def _nobody_anew(brokers: JavaSet) -> Row:
    return Row("replicas that had to be started anew", ", ".join(brokers.started_anew) or "none", not brokers.started_anew)
