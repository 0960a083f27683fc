"""Where a process of a local cluster runs and what is set differently for it: `regent up --places
FILE`, for tests.

Responsible for: the form of that file. Refuses to know: what the settings mean and what a command
prefix does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.problems import EXIT_USAGE, Problem

KEYS = {"host", "prefix", "config"}


@dataclass(frozen=True, slots=True)
class Place:
    """`host` is bound and advertised instead of the cluster's, `prefix` are words before the
    command that starts the process, `config` goes over what the plan sets.
    """

    host: str | None
    prefix: tuple[str, ...]
    config: Mapping[str, Any]


def place_of(places: Mapping[str, Mapping[str, Any]], kind: str, name: str) -> Place:
    """What `places` says of the kind, and over it what it says of the process."""
    of_kind, of_name = places.get(kind, {}), places.get(name, {})
    both = {**of_kind, **of_name}
    return Place(
        both.get("host"),
        tuple(both.get("prefix", ())),
        {**of_kind.get("config", {}), **of_name.get("config", {})},
    )


def read_places(path: Path) -> dict[str, dict[str, Any]]:
    """Kind or process name to `host`, `prefix`, `config`. Problem when the file says anything
    else.
    """
    way_out = (
        'It looks like {"broker-a-1": {"host": "10.0.0.1", "prefix": ["nice"], "config": {}}}.'
    )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Problem(f"--places {path} cannot be read: {error}", way_out, EXIT_USAGE) from error
    entries = found.values() if isinstance(found, dict) else [None]
    if not all(isinstance(one, dict) and one.keys() <= KEYS for one in entries):
        raise Problem(
            f"--places {path} holds something else than {', '.join(sorted(KEYS))}",
            way_out,
            EXIT_USAGE,
        )
    return dict(found)
