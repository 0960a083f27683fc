"""The sources of the example project are what the specifications say."""

from __future__ import annotations

from lakehouse.catalogue.dbt_sources import dbt_sources
from lakehouse.sql.named_tables import KNOWN
from lakehouse.sql.readable import columns_shown
from tests.support.tool_examples import DBT


def test_the_example_holds_the_sources_of_this_release() -> None:
    stored = (DBT / "models" / "sources.yml").read_text("utf-8")
    assert stored == dbt_sources(KNOWN), "regent lake views --as dbt-sources writes it anew"


def test_every_table_and_column_has_its_meaning_on_one_line() -> None:
    text = dbt_sources(KNOWN)
    assert text.count("      - name: ") == sum(
        1 + len(columns_shown(spec)) for spec in KNOWN.values()
    )
    assert text.count('description: "') == text.count("description:")
