"""What the examples for dbt, Grafana and Superset ask, as these tools would ask it.

Responsible for taking their queries out of the files, with Grafana's variables and Superset's
metrics put in. Refuses to ask.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "lakehouse" / "examples"
DBT, GRAFANA, SUPERSET = (EXAMPLES / name for name in ("dbt", "grafana", "superset"))
FROM, TO = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
"""The range of the guide's history."""
_FILTER = re.compile(r"\$__timeFilter\((CAST\(.*?\)|\w+)\)")
_SQL = re.compile(r"^sql: \|-\n((?:  .*\n)+)", re.MULTILINE)
_METRIC = re.compile(r"metric_name: (\w+)\n    verbose_name: .*\n    expression: (.*)")
_COLUMN = re.compile(r"column_name: (\w+)")


def dashboard() -> dict[str, Any]:
    """Grafana's dashboard."""
    return json.loads((GRAFANA / "regent.json").read_text("utf-8"))


def grafana_queries(broker_set: str = "broker-000") -> dict[str, str]:
    """Title of each panel, annotation and variable -> its query as Grafana would send it."""
    found = {
        panel["title"]: target["rawSql"]
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    }
    for one in dashboard()["annotations"]["list"]:
        found[f"annotation {one['name']}"] = one["target"]["rawSql"]
    for one in dashboard()["templating"]["list"]:
        if one["type"] == "query":
            found[f"variable {one['name']}"] = one["query"]
    return {
        title: _FILTER.sub(rf"\1 >= '{FROM}' AND \1 <= '{TO}'", query).replace(
            "${broker_set:sqlstring}", f"'{broker_set}'"
        )
        for title, query in found.items()
    }


def superset_queries() -> dict[str, str]:
    """Each dataset with its columns, and each of its metrics, as Superset would ask for them."""
    found = {}
    for path in sorted(SUPERSET.glob("datasets/*/*.yaml")):
        text = path.read_text("utf-8")
        inner = textwrap.dedent(_SQL.search(text)[1])  # type: ignore[index]
        columns = ", ".join(_COLUMN.findall(text))
        found[path.stem] = f"SELECT {columns} FROM ({inner}) AS virtual_table LIMIT 1000"
        for name, expression in _METRIC.findall(text):
            found[f"{path.stem}.{name}"] = (
                f'SELECT broker_name, {expression} AS "{name}" FROM ({inner}) AS virtual_table '
                "GROUP BY broker_name"
            )
    return found
