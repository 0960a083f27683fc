"""Statements that another tool runs: DuckDB takes each, and names need no care."""

from __future__ import annotations

import duckdb

from lakehouse.catalogue.views import duckdb_views, spark_tables
from lakehouse.sql.named_tables import KNOWN
from lakehouse.tables.lake import lake_at

PLACE = "/srv/it's here/tables"


def test_duckdb_takes_every_statement_and_each_column_has_its_meaning() -> None:
    text = duckdb_views(lake_at(PLACE, "o'brien"), KNOWN)
    statements = duckdb.extract_statements(text)
    views = [one for one in statements if "CREATE OR REPLACE VIEW" in one.query]
    assert len(views) == len(KNOWN)
    assert "delta_scan('/srv/it''s here/tables/gold/failovers')" in text
    assert text.count("WHERE cluster_id = 'o''brien'") == len(KNOWN)
    columns = sum(len(spec.columns) for spec in KNOWN.values())
    assert len(statements) > len(KNOWN) * 2 + columns
    assert 'COMMENT ON COLUMN gold."failovers"."at_time"' in text


def test_a_lake_of_all_clusters_shows_all_and_what_is_not_made_is_told() -> None:
    text = duckdb_views(lake_at("s3://lake/tables"), {}, ["gold.failovers"])
    assert "WHERE" not in text and "-- Not made yet: gold.failovers. Run 'regent lake gold'" in text
    assert duckdb.extract_statements(text) == []
    one = {"gold.failovers": KNOWN["gold.failovers"]}
    assert "delta_scan('s3://lake/tables/gold/failovers');" in duckdb_views(
        lake_at("s3://lake/tables"), one
    )


def test_sparks_tables_lie_where_hadoop_finds_them_in_the_catalogue_that_is_named() -> None:
    one = {"gold.failovers": KNOWN["gold.failovers"]}
    text = spark_tables(lake_at("s3://lake/tables"), one, "unity")
    assert "CREATE SCHEMA IF NOT EXISTS `unity`.gold;" in text
    assert (
        "CREATE TABLE IF NOT EXISTS `unity`.gold.`failovers` USING delta LOCATION "
        "'s3a://lake/tables/gold/failovers';"
    ) in text
    assert "EXISTS gold.`failovers`" in spark_tables(lake_at(PLACE), one)
