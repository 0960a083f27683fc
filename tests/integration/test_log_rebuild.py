"""The command log is lost and made anew from the landed tables; the controllers go on where it
ended (design S11).
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from events.codec import decode
from events.commands import DoubtBrokerSet
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from processors.fold.decide_doubt import LIFTED_BY
from processors.fold.state_digest import newest_state_digest
from processors.log.reader import LogReader
from tests.support.controllers import NAMES, Controllers
from tests.support.landed_log import Record, lake_in, land
from tests.support.local_cluster import regent

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
SETS = 110


def landed_from(bootstrap: str, tables: Path) -> dict[str, list[bytes]]:
    """Both topics into tables, as the landing job does it; gives what lies in them."""
    reader = LogReader({"bootstrap.servers": bootstrap})
    found: dict[str, list[bytes]] = {COMMANDS_TOPIC: [], OUTCOMES_TOPIC: []}
    for topic, values in found.items():
        _, end = reader.bounds(topic, 60)
        reader.read(topic, 0, end, lambda offset, data, values=values: values.append(data))
    reader.close()
    records: list[Record] = [
        (topic, 0, n, value) for topic, values in found.items() for n, value in enumerate(values)
    ]
    land(lake_in(tables), records)
    return found


async def wait_quiet(controllers: Controllers) -> dict[str, dict]:  # type: ignore[type-arg]
    return await controllers.until(
        lambda all_: any(
            one["role"] == "active" and one["published_offset"] == one["applied_offset"]
            for one in all_.values()
        ),
        "all outcomes are published",
    )


async def test_a_lost_log_is_made_anew_from_the_tables_and_the_controllers_go_on(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    tables = tmp_path / "tables"
    first = Controllers(tmp_path, own_kafka.bootstrap, "rebuilt")
    try:
        first.start("c1")
        await first.until(lambda all_: all_["c1"]["role"] == "active", "it leads")
        for number in range(SETS):
            ext = {
                **NAMES,
                "brokerName": f"set-{number}",
                "appliedBrokerId": "1",
                "registerCheckCode": "h:1;1",
            }
            answer = await first.asked("c1", 1013, ext)
            assert answer.code == 0, answer.remark
        before = (await wait_quiet(first))["c1"]
        assert first.end("c1", signal.SIGTERM) == 0
    finally:
        await first.close()
    landed = landed_from(own_kafka.bootstrap, tables)
    with LocalKafka(tmp_path / "fresh") as kafka:
        words = (
            "controller",
            "rebuild",
            "--from-delta",
            str(tables),
            "--kafka",
            f"bootstrap.servers={kafka.bootstrap}",
        )
        tried = await asyncio.to_thread(regent, *words, "--dry-run")
        there = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=60).topics
        # Kafka makes topics of its own when a client so much as asks for its group.
        assert tried.returncode == 0 and not [
            name for name in there if not name.startswith("__")
        ], tried.stderr
        done = await asyncio.to_thread(regent, *words)
        assert done.returncode == 0, done.stderr
        assert (
            f"every digest published up to offset {len(landed[COMMANDS_TOPIC]) - 1} is equal"
        ) in done.stdout
        again = landed_from(kafka.bootstrap, tmp_path / "again")
        restored, doubts = (
            again[COMMANDS_TOPIC][: len(landed[COMMANDS_TOPIC])],
            again[COMMANDS_TOPIC][len(landed[COMMANDS_TOPIC]) :],
        )
        assert {**again, COMMANDS_TOPIC: restored} == landed, "byte for byte, offset by offset"
        doubted = {
            one.broker_name for data in doubts if isinstance(one := decode(data), DoubtBrokerSet)
        }
        assert doubted == before["sets"].keys() and len(doubts) == SETS, (
            "behind it every set is uncertain, once"
        )
        refused = await asyncio.to_thread(regent, *words)
        assert refused.returncode == 1 and "is not fresh" in refused.stderr
        told = await asyncio.to_thread(
            regent,
            "controller",
            "rebuild",
            "--from-log",
            "--kafka",
            f"bootstrap.servers={kafka.bootstrap}",
        )
        assert told.returncode == 0 and "uncertain: set-0, " in told.stdout, told.stderr
        # The one that knew the old log goes on from its snapshot, a new one folds the whole log:
        # both agree.
        second = Controllers(tmp_path, kafka.bootstrap, "rebuilt", names=("c1", "c2", "c3"))
        try:
            second.start("c1")
            second.start("c2")
            await second.both_follow()
            after = await second.until(
                lambda all_: (
                    len({(one["applied_offset"], one["digest"]) for one in all_.values()}) == 1
                ),
                "both agree",
            )
            assert after["c1"]["sets"].keys() == before["sets"].keys()
            assert all(
                one["master_epoch"] == 2 * LIFTED_BY for one in after["c1"]["sets"].values()
            ), "doubted by both, each time above"
            # One claim, or a few where the machine lets a leader stand still: the term goes on.
            assert after["c1"]["term"] > before["term"]
            # A third one starts from the state of a moment that the tables give, and folds only
            # what came later.
            at, snapshots = (
                newest_state_digest(len(landed[COMMANDS_TOPIC])),
                tmp_path / "c3" / "snapshots",
            )
            snapshots.mkdir(parents=True)
            made = await asyncio.to_thread(
                regent,
                "lake",
                "snapshot",
                "--tables",
                str(tables),
                "--at",
                str(at),
                "--out",
                str(snapshots),
            )
            assert made.returncode == 0 and ("as a controller published it") in made.stdout, (
                made.stderr
            )
            second.start("c3")
            third = await second.until(
                lambda all_: (
                    all_["c3"]["ready"]
                    and len({(one["applied_offset"], one["digest"]) for one in all_.values()}) == 1
                ),
                "the third agrees",
            )
            rest = third["c3"]["applied_offset"] - at
            assert "no snapshot can be used" not in second.said("c3") and at > 0
            folded = re.search(r"folded (\d+) of", second.said("c3"))
            assert folded is not None and int(folded[1]) <= rest
        finally:
            await second.close()
