"""
What the checkpoint of a streaming query says of its progress.

Responsible for reading how far the last finished batch went, so that a job that starts with
nothing new to land knows how far it is. Nothing rests on it: a checkpoint that is gone or not
understood means 0, and the batches that then come again change nothing.
"""

from __future__ import annotations

import json

from lakehouse.tables.lake import lake_at


def finished_offsets(place: str) -> dict[str, int]:
    """`topic-partition` -> next offset after the last finished batch; empty when unknown, as in an
    object store.
    """
    checkpoint = lake_at(place).folder
    if checkpoint is None:
        return {}
    finished = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdigit()]
    if not finished:
        return {}
    try:
        lines = (checkpoint / "offsets" / str(max(finished))).read_text("utf-8").splitlines()
        # Version, metadata, then one line per source; ours has one.
        topics = json.loads(lines[-1])
        return {
            f"{topic}-{number}": int(end)
            for topic, partitions in topics.items()
            for number, end in partitions.items()
        }
    except (OSError, ValueError, AttributeError, IndexError):
        return {}
