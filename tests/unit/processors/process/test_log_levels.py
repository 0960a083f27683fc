from __future__ import annotations

import logging

import pytest

from processors.process import log_levels


def test_a_module_of_ours_that_logs_and_its_package_are_loggers() -> None:
    logging.getLogger("processors.controller")
    for name in ("processors", "processors.controller"):
        assert log_levels.is_logger(name) and name in log_levels.loggers()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "root",
        "nobody",
        "processors.invented",
        "processors.",
        "asyncio",
        "processorsx",
        "PROCESSORS",
    ],
)
def test_other_names_are_not_and_asking_makes_none(name: str) -> None:
    logging.getLogger("asyncio")
    before = dict(logging.root.manager.loggerDict)
    assert not log_levels.is_logger(name) and name not in log_levels.loggers()
    assert logging.root.manager.loggerDict == before


def test_the_levels_that_somebody_set_are_shown() -> None:
    logger = logging.getLogger("processors.controller")
    before = logger.level
    try:
        logger.setLevel(logging.ERROR)
        assert (
            log_levels.levels()["processors.controller"] == "ERROR"
            and "root" in log_levels.levels()
        )
        logger.setLevel(logging.NOTSET)
        assert "processors.controller" not in log_levels.levels()
    finally:
        logger.setLevel(before)
