"""The levels of this process's loggers, and which names are loggers of ours.

Responsible for: what may be changed while a process runs. A logger is never made by a name from
outside: whoever asks could make them without end. Refuses to know: who asks.
"""

from __future__ import annotations

import logging

from processors.controller.context import LOGGER_ROOTS


def loggers() -> list[str]:
    """The names that a level can be set for: modules of ours that log, and the packages above
    them.
    """
    return sorted(
        name
        for name in tuple(logging.root.manager.loggerDict)
        if name.partition(".")[0] in LOGGER_ROOTS
    )


def is_logger(name: str) -> bool:
    """True for a logger of ours that is there."""
    return name.partition(".")[0] in LOGGER_ROOTS and name in logging.root.manager.loggerDict


def levels() -> dict[str, str]:
    """The root's level, and those of loggers that have one of their own."""
    own = {
        name: logging.getLevelName(one.level)
        for name, one in sorted(logging.root.manager.loggerDict.items())
        if isinstance(one, logging.Logger) and one.level != logging.NOTSET
    }
    return {"root": logging.getLevelName(logging.root.level), **own}
