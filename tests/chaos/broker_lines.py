"""The faults of brokers, in the order in which they are tried: each module brings its own lines."""

from __future__ import annotations

from tests.chaos import brokers_hit

LINES = (*brokers_hit.LINES,)
