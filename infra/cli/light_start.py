"""Verbs that read tables and show text start without pandas, which the Arrow library loads wherever
it is installed: a third of their time.

Refuses to know what a verb does; one that may start Spark, which wants pandas, is not among them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder

WITHOUT_PANDAS = frozenset(
    {
        "explain",
        "history",
        "state",
        "diff",
        "failovers",
        "availability",
        "timeline",
        "sql",
        "forecast",
        "what-if",
    }
)
SPARK = "--spark"


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here")


def hide_pandas(words: Sequence[str]) -> None:
    """For the rest of this process, when the verb among `words` needs none."""
    if words and words[0] in WITHOUT_PANDAS and SPARK not in words:
        sys.meta_path.insert(0, _NoPandas())
