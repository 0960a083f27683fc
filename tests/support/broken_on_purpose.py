"""Rules as tests that are shown twice: each holds, and is seen to break once a patch of one product
function breaks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

Patch = pytest.MonkeyPatch
Rule = Callable[[Path], Awaitable[None]]
Bug = Callable[[Patch], None]


def cases(broken: Mapping[Rule, tuple[Bug, ...]]) -> list[object]:
    """Every rule with each of its bugs, as parameters `rule` and `bug`."""
    pairs = [(rule, bug) for rule, bugs in broken.items() for bug in bugs]
    return [pytest.param(rule, bug, id=f"{name_of(rule)}-{bug.__name__}") for rule, bug in pairs]


def name_of(rule: Rule) -> str:
    """`s5` of test_s5_an_unclean_start_..."""
    return rule.__name__.split("_")[1]


async def is_seen(rule: Rule, bug: Bug, folder: Path) -> None:
    """The rule's test fails by an assertion of its own while the bug is planted."""
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        with pytest.raises(BaseException) as caught:
            await rule(folder)
    assert isinstance(caught.value, (AssertionError, pytest.fail.Exception)), caught.value
