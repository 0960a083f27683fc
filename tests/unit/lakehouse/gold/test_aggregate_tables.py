from lakehouse.gold.aggregate_tables import AGGREGATE_TABLES
from lakehouse.gold.specs import GOLD_BY_NAME


def test_each_table_names_its_rows_by_columns_that_it_has() -> None:
    for table in AGGREGATE_TABLES:
        names = table.schema.names
        assert len(set(names)) == len(names) and set(table.key) <= set(names)
        assert table.key[0] == "cluster_id" == table.partition_by[0]
        assert table.layer == "gold" and table.name not in GOLD_BY_NAME
        assert all(column.meaning.endswith(".") for column in table.columns)
        assert {check.column for check in table.checks} <= set(names)
