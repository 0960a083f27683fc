"""The tables in the catalogues and tools of others: Iceberg's, DuckDB's and Spark's views, dbt's
sources.
"""
