"""Who proves."""

from __future__ import annotations

from functools import partial

import pytest

from lakehouse.proof.verify import verify_here, verify_in
from tests.support.proven_lake import Prove


@pytest.fixture
def prove(request: pytest.FixtureRequest) -> Prove:
    """The proof in this process, or in the session's Spark."""
    if getattr(request, "param", "here") == "here":
        return verify_here
    return partial(verify_in, request.getfixturevalue("spark"))
