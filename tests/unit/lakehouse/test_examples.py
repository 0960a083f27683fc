"""The examples for other tools ask what there is: every query of them is answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakehouse
from lakehouse.sql.frames import LakeTables
from tests.support import tool_examples
from tests.support.lake_guide import make_lake

QUERIES = tool_examples.grafana_queries() | tool_examples.superset_queries()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeTables:
    return lakehouse.open(make_lake(tmp_path_factory.mktemp("guide")) / ".regent")


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_of_grafana_or_superset_gives_rows(title: str, lake: LakeTables) -> None:
    query = QUERIES[title]
    assert "$" not in query
    assert lake.sql(query).to_arrow().num_rows > 0


def test_the_dashboard_has_a_place_for_each_panel() -> None:
    panels = tool_examples.dashboard()["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_model_of_dbt_asks_what_there_is(lake: LakeTables) -> None:
    for path in (
        tool_examples.DBT / "models" / "cost_of_failovers.sql",
        tool_examples.DBT / "tests" / "every_failover_is_counted.sql",
    ):
        query = _with_names(path)
        assert lake.sql(query).to_arrow().num_rows == (3 if path.parent.name == "models" else 0)


def _with_names(path: Path) -> str:
    model = tool_examples.DBT / "models" / "cost_of_failovers.sql"
    text = re.sub(r"^--.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\{\{ source\('(\w+)', '(\w+)'\) \}\}", r"\1.\2", text)
    return re.sub(
        r"\{\{ ref\('cost_of_failovers'\) \}\}", lambda _: f"({_with_names(model)})", text
    )
