"""SQL over the tables, without Spark and with it, and as data frames."""
