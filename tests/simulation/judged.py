"""What tests of simulated worlds share: a series from one first seed, and lines to the terminal.

REGENT_SIMULATION_FROM: the first seed (default: by chance, printed); `known`: the one of FIRST.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from random import SystemRandom

import pytest

from tests.simulation.seeds import Report, Series

FROM = os.environ.get("REGENT_SIMULATION_FROM")
SEEDS_MAX = 1_000_000_000
FIRST = {
    "simulation": 15,
    "control plane": 16,
    "store": 47,
    "services": 51,
    "majority": 129,
    "acting": 18,
}
"""From there the fewest worlds show everything that can happen, as far as it was looked for: a run
of the tests has little time for each kind. 1 where it makes no difference.
"""


def say(request: pytest.FixtureRequest, line: str) -> None:
    """To the terminal, whether output is captured or not."""
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)


def judged(
    request: pytest.FixtureRequest, about: str, series: Series, budget_s: float, worlds: int
) -> Report:
    """All worlds that fit the budget; `worlds`, however long they take, as long as something was
    not seen.
    """
    if FROM == "known":
        first = FIRST.get(about, 1)
    else:
        first = int(FROM) if FROM else SystemRandom().randrange(SEEDS_MAX)
    say(request, f"{about}: seeds from {first}, {budget_s:.0f} s")
    report = series.run(
        first, None, budget_s, lambda line: say(request, line), until_covered=True, at_least=worlds
    )
    line = report.line()
    say(request, line if line.startswith(about) else f"{about}: {line}")
    return report
