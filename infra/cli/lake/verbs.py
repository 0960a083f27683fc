"""`regent lake VERB`: which verbs there are for the tables as a whole. Each verb's code is a module
of its own.
"""

from __future__ import annotations

import argparse

from infra.cli.main import Verb
from infra.problems import EXIT_USAGE, Problem

SUBVERBS: dict[str, Verb] = {
    "check": Verb(
        "infra.cli.lake.check",
        "gaps in the landed offsets, and invariants over all history; exits 1 when one is broken",
        ("regent lake check", "regent lake check --tables /srv/tables --json"),
    ),
    "gold": Verb(
        "infra.cli.lake.gold",
        "bring the tables that answer questions up to what has landed; the landing job does the "
        "same",
        ("regent lake gold", "regent lake gold --every 15", "regent lake gold --from-start"),
    ),
    "aggregates": Verb(
        "infra.cli.lake.aggregates",
        "failovers by the hour and lag of slaves by five minutes, counted by Spark as history "
        "lands",
        ("regent lake aggregates", "regent lake aggregates --every 60 --watermark 600"),
    ),
    "maintain": Verb(
        "infra.cli.lake.maintain",
        "merge small files, remove what time travel no longer needs, keep tables quick to open; "
        "also beside a landing job",
        ("regent lake maintain", "regent lake maintain --window 7 --every 3600"),
    ),
    "anchor": Verb(
        "infra.cli.lake.anchor",
        "what landed, named in lines for a place that the lake's writers do not reach: 'regent "
        "verify --anchors' holds the lake against them",
        (
            "regent lake anchor --file /mnt/elsewhere/anchors.jsonl --every 60",
            'regent lake anchor --file anchors.jsonl --command "ssh vault append-anchors"',
        ),
    ),
    "views": Verb(
        "infra.cli.lake.views",
        "SQL that gives the tables their names in DuckDB (Superset, Grafana, dbt) or in a Spark "
        "catalogue; dbt's sources",
        (
            "regent lake views > views.sql",
            "regent lake views --as spark --catalogue unity --tables s3://lake/tables",
            "regent lake views --as dbt-sources > models/sources.yml",
        ),
    ),
    "register": Verb(
        "infra.cli.lake.register",
        "the tables in an Iceberg catalogue (REST or SQL), over the same files: for whoever reads "
        "Iceberg",
        (
            "regent lake register --iceberg http://catalogue:8181",
            "regent lake register --iceberg https://catalogue/api --property token=T --every 60",
        ),
    ),
    "snapshot": Verb(
        "infra.cli.lake.snapshot",
        "the controllers' state of any offset or moment, rebuilt from the tables, as a file a "
        "controller starts from",
        (
            "regent lake snapshot --at 42 --out state.bin",
            "regent lake snapshot --at 2026-11-21T10:00:00Z --out /var/lib/regent/c1/snapshots",
        ),
    ),
}


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Nothing without a word behind it."""


def run(arguments: argparse.Namespace) -> int:
    """Raises Problem: the word is missing."""
    raise Problem(
        f"{arguments.verb}: which verb?",
        f"One of: {', '.join(SUBVERBS)}. 'regent lake --help' lists them.",
        EXIT_USAGE,
    )
