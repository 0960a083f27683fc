"""
Questions that three parties must answer alike: the Spark-free reader, Spark, and whoever folded the log itself.

Responsible for the questions, in SQL that both dialects have, and for the answers that a generated history allows no
other of. Refuses to know how tables come to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from events.codec import decode
from events.outcomes import Outcome
from processors.fold import Folder
from tests.support.generated_history import GeneratedHistory

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `truth` None: the two readers are only compared with each other."""

    name: str
    query: str
    truth: Callable[[GeneratedHistory, Folder], Rows] | None = None


def folded(history: GeneratedHistory) -> Folder:
    """What a controller holds after this history."""
    folder = Folder()
    folder.apply_many(0, history.commands)
    return folder


def rows_of(answer: Any) -> Rows:
    """An answer's rows as tuples."""
    return [tuple(row.values()) for row in answer.rows.to_pylist()]


def _sets(history: GeneratedHistory, folder: Folder) -> Rows:
    found = (folder.state.sets[name] for name in history.sets)
    return [(one.broker_name, one.master_broker_id, one.master_epoch, one.sync_state_set_epoch, list(one.sync_state_set)) for one in found]


def _failovers(history: GeneratedHistory, _: Folder) -> Rows:
    found = [(history.commands_ms[one.election_offset], one.broker_name, one.old_master, one.new_master) for one in history.blows]
    return sorted(found)


def _refusals(history: GeneratedHistory, _: Folder) -> Rows:
    first: dict[int, Outcome] = {}
    for data in history.outcomes:
        outcome = decode(data)
        assert isinstance(outcome, Outcome)
        first.setdefault(outcome.command_offset, outcome)
    return sorted(Counter(one.refusal for one in first.values() if not one.accepted).items())  # type: ignore[type-var]


def _commands(history: GeneratedHistory, _: Folder) -> Rows:
    return [(len(history.commands), len(history.outcomes), sum(map(len, history.events)))]


def _causes(history: GeneratedHistory, _: Folder) -> Rows:
    kinds = Counter(one.kind for one in history.blows)
    return [(kinds["silent"], kinds["handed over"], kinds["power"])]


QUESTIONS: tuple[Question, ...] = (
    Question("sets now", "SELECT broker_name, master_broker_id, master_epoch, sync_state_set_epoch, sync_state_set "
             "FROM gold.broker_sets ORDER BY broker_name", _sets),
    Question("failovers", "SELECT at_ms, broker_name, old_master, new_master FROM gold.failovers ORDER BY at_ms, broker_name", _failovers),
    Question("causes", "SELECT count(CASE WHEN cause = 'master_heartbeat_expired' THEN 1 END) AS silent, "
             "count(CASE WHEN cause = 'operator_request' THEN 1 END) AS asked, "
             "count(CASE WHEN reason IS NOT NULL THEN 1 END) AS risky "
             "FROM gold.failovers LEFT JOIN (SELECT broker_name AS name, master_epoch, reason FROM gold.messages_at_risk) AS risk "
             "ON name = broker_name AND master_epoch = new_epoch", _causes),
    Question("refusals", "SELECT refusal, count(DISTINCT command_offset) AS times FROM silver.decisions WHERE NOT accepted "
             "GROUP BY refusal ORDER BY refusal", _refusals),
    Question("records", "SELECT count(CASE WHEN topic = 'regent.commands' THEN 1 END) AS commands, "
             "count(CASE WHEN topic = 'regent.outcomes' THEN 1 END) AS outcomes, "
             "count(CASE WHEN topic = 'regent.broker-events' THEN 1 END) AS events FROM bronze.records", _commands),
    Question("availability", "SELECT broker_name, CAST(day AS VARCHAR(10)) AS day, unavailable_ms, masterless_ms, failovers, longest_gap_ms "
             "FROM gold.availability ORDER BY broker_name, day"),
    Question("cut off", "SELECT broker_name, CAST(sum(truncated_bytes) AS BIGINT) AS bytes FROM gold.failovers GROUP BY broker_name ORDER BY broker_name"),
    Question("ids", "SELECT broker_name, broker_id, address FROM gold.broker_identity ORDER BY broker_name, broker_id"),
)  # fmt: skip


def truths(history: GeneratedHistory) -> Mapping[str, Rows]:
    """By question, what the answer must be."""
    folder = folded(history)
    return {one.name: one.truth(history, folder) for one in QUESTIONS if one.truth is not None}
