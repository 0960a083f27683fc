"""Histories for the gold layer, folded by the real fold, and what must hold of every gold row.

Responsible for times, published stamps and broker events of these cases. Knows no rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from events.envelope import Envelope
from lakehouse.gold.fold import GoldFold, Published, SetChange
from lakehouse.gold.specs import GoldTableSpec
from lakehouse.tables.row_checks import first_broken
from processors.fold.rules import SETTING_UNCLEAN
from processors.fold.state import BrokerSet
from tests.support.control_history import CLUSTER, NAME, History, seen, with_master

BEGAN_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC: record n was taken n seconds later."""
OTHER_CLUSTER_ID = "cluster-2"


class OtherCluster(History):
    """A history of another cluster, with a set of the same name."""

    def envelope(self, **other: object) -> Envelope:
        return super().envelope(**{"cluster_id": OTHER_CLUSTER_ID, **other})


def at(offset: int) -> int:
    """When record `offset` was taken, ms."""
    return BEGAN_MS + 1000 * offset


def landed(history: History) -> list[tuple[int, int, bytes]]:
    """The records of a history as bronze has them."""
    return [(offset, at(offset), value) for offset, value in enumerate(history.records)]


def changes_of(
    history: History, published: Mapping[int, Published] | None = None
) -> list[SetChange]:
    """What the records of a history did."""
    return list(GoldFold().changes(landed(history), published))


def other_cluster() -> History:
    """Cluster 2: one replica, which is master."""
    history = OtherCluster()
    assert history.apply_id(1).accepted
    assert history.register(1).accepted
    assert history.elect(1).accepted
    return history


def failed_over() -> tuple[History, int]:
    """Broker 3 takes over from a dead broker 1; the offset of that election."""
    history = with_master(1, 2, 3)
    offset = len(history.records)
    assert history.elect(
        -1, seen(1, alive=False), seen(2, offset=900), seen(3), master_epoch=1
    ).accepted
    return history, offset


def nobody_left() -> tuple[History, int]:
    """The only member dies, nobody can follow, and later it comes back as master; the offset of the
    refusal.
    """
    history = with_master(1)
    offset = len(history.records)
    refused = history.elect(-1, seen(1, alive=False), seen(2), seen(3))
    assert refused.refusal == "MASTER_NOT_AVAILABLE"
    assert history.elect(-1, seen(1), seen(2), seen(3)).accepted
    return history, offset


def event(broker_id: int, at_ms: int, **fields: Any) -> dict[str, Any]:
    """A row of a silver table of broker events."""
    return {
        "event_id": f"{broker_id}-{at_ms}",
        "broker_name": NAME,
        "broker_id": broker_id,
        "at_ms": at_ms,
        **fields,
    }


def require_sound(table: GoldTableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows are of the table: its columns, types, key and checks."""
    names = table.schema.names
    assert all(sorted(row) == sorted(names) for row in rows)
    arrow = pa.Table.from_pylist(list(rows), schema=table.schema)
    arrow.validate(full=True)
    for column in table.columns:
        assert column.nullable or not any(row[column.name] is None for row in rows), column.name
    keys = [tuple(row[name] for name in table.key) for row in rows]
    assert len(set(keys)) == len(keys)
    assert [
        first_broken(row, table.checks) for row in rows if first_broken(row, table.checks)
    ] == []


def put(
    table: GoldTableSpec, *runs: Iterable[Mapping[str, Any]]
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """What stands in a table after these runs: the last row of each key."""
    return {tuple(row[name] for name in table.key): row for rows in runs for row in rows}


def wandering(seed: int, steps: int = 80) -> History:
    """A history of blows, repairs and odd wishes, many of them refused; by the seed."""
    chance = Random(seed)
    past = OtherCluster() if seed % 2 else History()
    past.setting(SETTING_UNCLEAN, chance.choice(("true", "false")))
    for step in range(steps):
        _one_step(past, chance, f"start-{step}")
    return past


def _one_step(past: History, chance: Random, incarnation: str) -> None:
    known = past.folder.state.sets.get(NAME, BrokerSet(CLUSTER, NAME))
    ids = [replica.broker_id for replica in known.replicas] or [1]
    evidence = [
        seen(
            r.broker_id,
            alive=chance.random() < 0.6,
            offset=chance.randrange(-1, 2000),
            incarnation=r.incarnation,
        )
        for r in known.replicas
    ]
    one = chance.choice(ids)
    match chance.randrange(10):
        case 0:
            past.apply_id(known.next_broker_id)
        case 1 | 2:
            past.register(one, incarnation, clean=chance.random() < 0.7)
        case 3 | 4 | 5:
            past.elect(chance.choice((-1, -1, one)), *evidence, designate=chance.random() < 0.2)
        case 6 | 7:
            wanted = {
                known.master_broker_id or one,
                *chance.sample(ids, chance.randrange(len(ids) + 1)),
            }
            past.alter(tuple(sorted(wanted)), *evidence)
        case 8:
            past.clean(chance.choice((None, (one,), (one,))), living=chance.random() < 0.5)
        case _:
            if chance.random() < 0.5:
                past.claim(past.folder.state.term)
            else:
                past.append(chance.choice((b"garbage", past.records[-1])))
