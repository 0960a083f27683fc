"""What the tables answer to the questions of `lake_questions`, by each who reads them, and what a
fold of the log answers.

Refuses to know what else could be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.proof import verify
from lakehouse.sql import query, query_spark
from lakehouse.tables.lake import Lake
from tests.support.lake_questions import HEAD, KnownLog, Question, Rows, rows_of


def by_fold(log: KnownLog) -> Callable[[Question], Rows | None]:
    """Of the log itself, in memory."""
    return lambda question: None if question.truth is None else question.truth(log)


def by_sql(lake: Lake) -> Callable[[Question], Rows]:
    """Without Spark."""
    return lambda question: rows_of(query.ask(lake, question.query), question)


def by_spark(spark: Any, lake: Lake) -> Callable[[Question], Rows]:
    """The same queries by Spark."""
    return lambda question: rows_of(query_spark.ask(spark, lake, question.query), question)


def by_proof(spark: Any, lake: Lake) -> Callable[[Question], Rows | None]:
    """Spark folds the landed commands; it must have found nothing wrong with what was published."""

    def answer(question: Question) -> Rows | None:
        if question.name != HEAD:
            return None
        found = verify.verify_in(spark, lake)
        if found.exit_code:
            raise LakehouseError(found.text())
        return [(found.verified_up_to, found.digest)]

    return answer
