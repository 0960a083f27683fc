"""What `regent state` and `regent history` answer to the questions of `lake_questions`, each as a
process of its own.

Refuses to know what the answers ought to be.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.lake_questions import (
    HALFWAY,
    HEAD,
    HISTORY,
    LEADER,
    REPLICA_FIELDS,
    REPLICAS,
    SET_FACTS,
    SETS,
    Question,
    Rows,
)

ROOT = Path(__file__).resolve().parents[2]


def ask_verb(*words: str) -> Any:
    """The document that a verb prints. RuntimeError with its own words when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "infra", *words, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"regent {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return json.loads(done.stdout)


class VerbAnswers:
    """The verbs about these tables; a call gives None for what they do not tell."""

    def __init__(self, tables: Path | str) -> None:
        self._where = ("--tables", str(tables))
        self._ways: Mapping[str, Callable[[Question], Rows]] = {
            SETS: self._sets,
            SET_FACTS: self._set_facts,
            REPLICAS: self._replicas,
            LEADER: self._leader,
            HEAD: self._head,
            HALFWAY: self._halfway,
            HISTORY: self._history,
        }

    def __call__(self, question: Question) -> Rows | None:
        way = self._ways.get(question.name)
        return None if way is None else way(question)

    @cached_property
    def _now(self) -> dict[str, Any]:
        return dict(ask_verb("state", *self._where))

    def _sets(self, _: Question) -> Rows:
        names = (
            "broker_name",
            "master_broker_id",
            "master_epoch",
            "sync_state_set_epoch",
            "sync_state_set",
        )
        return [tuple(one[name] for name in names) for one in self._now["sets"]]

    def _set_facts(self, _: Question) -> Rows:
        names = (
            "broker_name",
            "cluster_name",
            "next_broker_id",
            "highest_epoch_seen",
            "unclean_members",
            "master_restarted",
            "at_risk",
            "imported",
            "tombstone",
        )
        return [tuple(one[name] for name in names) for one in self._now["sets"]]

    def _replicas(self, _: Question) -> Rows:
        return [
            (
                one["broker_name"],
                [{name: each[name] for name in REPLICA_FIELDS} for each in one["replicas"]],
            )
            for one in self._now["sets"]
        ]

    def _leader(self, _: Question) -> Rows:
        return [(self._now["term"], self._now["leader_id"])]

    def _head(self, _: Question) -> Rows:
        return [(self._now["offset"], self._now["digest"])]

    def _halfway(self, question: Question) -> Rows:
        found = ask_verb("state", "--at", str(question.about), *self._where)
        return [(found["offset"], found["digest"])]

    def _history(self, question: Question) -> Rows:
        found = ask_verb("history", str(question.about), *self._where)["decisions"]
        return [(one["offset"], one["kind"], one["accepted"], one["refusal"]) for one in found]
