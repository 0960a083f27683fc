"""First full copies among brokers of both kinds: a replica with an empty disk joins under a master
of the other kind.

Responsible for: a log of many files, a broker of Regent that copies it from a Java master and a
Java broker that copies it from a master of Regent, both while a stock producer sends, also when
they are killed half way; nothing lost, logs equal byte by byte.
Refuses to know: who decides about masters.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from infra.problems import Problem
from tests.interop.both_kinds import (
    EQUAL_WITHIN_S,
    FILE_BYTES,
    Member,
    add,
    anew,
    broker_set,
    equal_logs,
    java,
    log_end,
    make_master,
    ours,
    records,
)
from tests.interop.java_client import PATIENT, Producer, read_back
from tests.interop.java_set import JavaSet, loss_row
from tests.interop.ledger import acknowledged_of
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
    """64 MiB between one of each kind; then one more of ours under the Java master, one more of
    Java under ours.
    """
    return _both_ways(stage, "copies", _joins_empty)


def cut_short(stage: Stage) -> list[Row]:
    """The same, but who copies is killed half way and started again."""
    return _both_ways(stage, "cut-copies", _is_killed_half_way)


def last_file(stage: Stage) -> list[Row]:
    """The same, but who joins is configured to begin with the master's newest file."""
    return _both_ways(
        stage,
        "late-copies",
        _begins_late,
        {"sync_from_last_file": True},
        {"syncFromLastFile": "true"},
        judge=_equal_late,
    )


def _both_ways(
    stage: Stage,
    name: str,
    joins: Callable[[Stage, ExitStack, JavaSet, Member], Row],
    of_ours: Mapping[str, bool] | None = None,
    of_java: Mapping[str, str] | None = None,
    *,
    judge: Callable[[JavaSet], Row] = equal_logs,
) -> list[Row]:
    """`of_ours`, `of_java`: settings of those that join."""
    with (
        ExitStack() as stack,
        broker_set(stage, name, [java("java-1", **JAVA_SETTINGS), ours("ours-1")]) as brokers,
    ):
        javas, first = brokers.brokers
        rows = []
        make_master(brokers, javas)
        rows.append(_written_first(stage, stack, brokers))
        tail = brokers.producer(stage, f"{name}-tail", PATIENT)
        stack.callback(tail.end)
        for master, newcomer in (
            (javas, ours("ours-2", **(of_ours or {}))),
            (first, java("java-2", **JAVA_SETTINGS, **(of_java or {}))),
        ):
            make_master(brokers, master)
            tail.flows()
            before = len(tail.rows())
            rows.append(joins(stage, stack, brokers, newcomer))
            rows.append(_flowed(tail, before))
        rows.append(loss_row(stage, brokers, tail))
        return [*rows, judge(brokers), anew(brokers)]


def _written_first(stage: Stage, stack: ExitStack, brokers: JavaSet) -> Row:
    count = FIRST_BYTES // BODY_BYTES + 1
    bulk = Producer(
        stage,
        brokers.name_servers,
        f"{brokers.name}-bulk",
        settings=BULK,
        rate=BULK_RATE_PER_S,
        count=count,
    )
    stack.callback(bulk.end)
    bulk.wait(
        lambda rows: len(acknowledged_of(rows)) == count, f"{count} messages are acknowledged"
    )
    back = read_back(stage, brokers.name_servers, bulk.topic, bulk.stop())
    end = log_end(brokers.master())
    return Row(
        f"{FIRST_BYTES >> 20} MiB of messages first: acknowledged lost",
        f"{back}; {end} bytes of log",
        back.ok and end > FIRST_BYTES,
    )


def _joins_empty(stage: Stage, stack: ExitStack, brokers: JavaSet, newcomer: Member) -> Row:
    """A member without a store joins."""
    master, began = brokers.master(), time.monotonic()
    one = add(stage, stack, brokers, newcomer)
    _in_sync(brokers, one)
    what = f"{one.name}, empty, under {master.name}: in sync after"
    return Row(
        what,
        f"{time.monotonic() - began:.1f} s; first file {_first_file(one)}, {len(_files(one))} "
        "files",
        _first_file(one) == 0,
    )


def _is_killed_half_way(stage: Stage, stack: ExitStack, brokers: JavaSet, newcomer: Member) -> Row:
    """A member without a store joins, is killed in its second file, and goes on from there."""
    master = brokers.master()
    one = add(stage, stack, brokers, newcomer)
    brokers.world.wait_until(
        lambda: _second_file_begun(one), f"{one.name} copies its second file", COPIED_WITHIN_S
    )
    if newcomer.is_java:
        brokers.world.wait_until(
            lambda: _stands_still_whole(one), f"{one.name} stands still", COPIED_WITHIN_S
        )
    one.kill()
    at, of = log_end(one), log_end(master)
    stage.say(f"kill -9 {one.name}, which has {at} bytes of {of}")
    one.start(wait=False)
    _in_sync(brokers, one)
    return Row(
        f"{one.name}, killed half way under {master.name}: in sync",
        f"killed at {at} of {of} bytes",
        FILE_BYTES <= at < of,
    )


def _begins_late(stage: Stage, stack: ExitStack, brokers: JavaSet, newcomer: Member) -> Row:
    """A member without a store joins and wants the newest file only."""
    master = brokers.master()
    newest = log_end(master) // FILE_BYTES * FILE_BYTES
    one = add(stage, stack, brokers, newcomer)
    _in_sync(brokers, one)
    what = f"{one.name}, empty, wants the last file of {master.name}: begins at"
    return Row(
        what, f"{_first_file(one)} of {log_end(master)} bytes", _first_file(one) >= newest > 0
    )


def _equal_late(brokers: JavaSet) -> Row:
    """From the first byte that all have on, the logs are equal."""
    first = max(_first_file(one) for one in brokers.brokers)

    def digests() -> set[tuple[str, ...]]:
        return {
            tuple(
                _digest(path) for path in _files(one) if int(path.name) >= first and _digest(path)
            )
            for one in brokers.brokers
        }

    try:
        brokers.world.wait_until(
            lambda: len(digests()) == 1, "the commit logs are equal", EQUAL_WITHIN_S
        )
    except Problem:
        return Row("commit logs equal", f"not from {first} on", ok=False)
    return Row(
        "commit logs equal",
        f"{len(brokers.brokers)} brokers from {first} on, byte by byte",
        bool(first and digests() != {()}),
    )


def _digest(path: Path) -> str:
    """Of its bytes without the zeros behind the log's end; '' for a file that holds nothing yet."""
    data = path.read_bytes().rstrip(b"\0")
    return hashlib.sha256(data).hexdigest() if data else ""


def _stands_still_whole(one: Replica) -> bool:
    """Stop it where the text of its last record is whole: Java takes zeros for a text that was not
    copied to its end, and never asks for the rest again. Ours is killed wherever it is.
    """
    one.pause()
    last = records(one, FILE_BYTES)[-1:]
    if all(record.properties.endswith(b"\x02") for record in last):
        return True
    one.resume()
    return False


def _in_sync(brokers: JavaSet, one: Replica) -> None:
    try:
        brokers.wait(
            f"{one.name} is in sync", lambda view: one.broker_id in view.in_sync, COPIED_WITHIN_S
        )
    except Problem as problem:
        raise Problem(problem.what, " | ".join(one.logs(5))) from None


def _flowed(tail: Producer, before: int) -> Row:
    """No send failed meanwhile; with one member more, they go on."""
    sent = tail.rows()[before:]
    tail.flows()
    gap = max((b.end_ms - a.end_ms for a, b in itertools.pairwise(sent)), default=0)
    failed = sum(row.outcome != "SEND_OK" for row in sent)
    return Row(
        "messages sent during that copy",
        f"{len(sent)}, {failed} failed, longest gap {gap} ms",
        bool(sent) and not failed,
    )


def _files(one: Replica) -> list[Path]:
    return sorted(
        path for path in one.store.glob("commitlog/*") if path.stat().st_size == FILE_BYTES
    )


def _first_file(one: Replica) -> int:
    """Start of its first log file; -1 where there is none."""
    return int(_files(one)[0].name) if _files(one) else -1


def _second_file_begun(one: Replica) -> bool:
    """Files are made ahead: there is a first byte."""
    with suppress(IndexError), _files(one)[1].open("rb") as file:
        return any(file.read(8))
    return False
